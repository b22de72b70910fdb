-- The messages of a queue that have dead letters, and how many dead letters each has.
SELECT partition_id, offset, count(*) FROM dead_letters WHERE queue_id = ?1 GROUP BY partition_id, offset
