-- The number of traces of a message.
SELECT count(*) FROM traces WHERE partition_id = ?1 AND offset = ?2
