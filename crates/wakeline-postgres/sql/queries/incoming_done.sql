-- Removes rows that were pushed. Called by: IncomingPump.
DELETE FROM @schema@.incoming WHERE seq = ANY ($1)
