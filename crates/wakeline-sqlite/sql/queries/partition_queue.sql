-- The name of a partition's queue.
SELECT q.name FROM partitions p JOIN queues q ON q.queue_id = p.queue_id WHERE p.partition_id = ?1
