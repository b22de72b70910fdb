-- Removes rows that were taken over.
DELETE FROM @schema@.incoming WHERE seq = ANY ($1)
