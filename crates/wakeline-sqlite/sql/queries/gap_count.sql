-- The number of deleted messages from an offset up to another one, which is exclusive.
SELECT count(*) FROM gaps WHERE partition_id = ?1 AND offset >= ?2 AND offset < ?3
