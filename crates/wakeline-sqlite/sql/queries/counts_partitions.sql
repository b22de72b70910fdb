-- The number of partitions of a queue, and the number of messages that were ever pushed to them.
SELECT count(*), coalesce(sum(next_offset), 0) FROM partitions WHERE queue_id = ?1
