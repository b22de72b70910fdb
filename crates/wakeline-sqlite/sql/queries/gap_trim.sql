-- Forgets the gaps before an offset. Called by: gap::trim.
DELETE FROM gaps WHERE partition_id = ?1 AND offset < ?2
