-- Returns a queue, with its options by the names of their columns.
SELECT q.queue_id, q.namespace, q.task, p.partition_id, to_jsonb(q)::text
FROM @schema@.queues q
JOIN @schema@.partitions p ON p.queue_id = q.queue_id AND p.name = 'Default'
WHERE q.name = $1
