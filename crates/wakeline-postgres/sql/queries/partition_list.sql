-- Returns partitions of a queue or of all, in order of their numbers.
SELECT q.name, q.namespace, q.task, p.name, p.partition_id, p.next_offset,
    CASE WHEN p.next_offset > 0 THEN p.last_push_at END
FROM @schema@.partitions p JOIN @schema@.queues q ON q.queue_id = p.queue_id
WHERE $1::text IS NULL OR q.name = $1
ORDER BY p.partition_id LIMIT $2 OFFSET $3
