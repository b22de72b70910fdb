-- Returns the queues of partitions.
SELECT p.partition_id, q.name FROM @schema@.partitions p JOIN @schema@.queues q USING (queue_id)
WHERE p.partition_id = ANY ($1)
