-- Returns scheduled messages of a queue ($1), of one key ($2) or all of them, in the order in which
-- they are due, after a position ($3, $4), at most $5. Reads only.
SELECT s.scheduled_id, s.timer_key, s.id, s.txn_id, s.trace_id, s.producer, p.name AS partition,
    s.partition_id, s.scheduled_at, s.deliver_at, s.payload
FROM @schema@.queues q
JOIN @schema@.scheduled s ON s.queue_id = q.queue_id
JOIN @schema@.partitions p ON p.partition_id = s.partition_id
WHERE q.name = $1 AND ($2::text IS NULL OR s.timer_key = $2)
    AND ($3::timestamptz IS NULL OR (s.deliver_at, s.scheduled_id) > ($3, $4))
ORDER BY s.deliver_at, s.scheduled_id
LIMIT $5
