-- Whether the message at an offset was deleted.
SELECT 1 FROM gaps WHERE partition_id = ?1 AND offset = ?2
