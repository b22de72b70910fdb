-- Returns dead letters, newest first.
SELECT d.dead_letter_id, d.id, d.txn_id, d.trace_id, d.partition_id, q.name, d.partition,
    d.group_name, d.error, d.failures, d.payload, d.producer, d.created_at, d.failed_at
FROM @schema@.dead_letters d JOIN @schema@.queues q USING (queue_id)
WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.group_name = $2)
    AND ($3::text IS NULL OR d.partition = $3) AND ($4::bigint IS NULL OR d.dead_letter_id = $4)
    AND ($5::timestamptz IS NULL OR d.failed_at >= $5)
    AND ($6::timestamptz IS NULL OR d.failed_at < $6)
    AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
ORDER BY d.dead_letter_id DESC LIMIT $8 OFFSET $9
