-- The next partitions of a queue, with the ends of their logs.
SELECT partition_id, name, next_offset FROM partitions
WHERE queue_id = ?1 AND partition_id > ?2 ORDER BY partition_id LIMIT ?3
