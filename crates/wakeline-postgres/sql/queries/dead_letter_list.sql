-- Dead letters, newest first. Called by: QueueAdmin::dead_letters.
SELECT d.id, d.txn_id, d.partition_id, q.name, d.partition, d.group_name, d.error, d.failures,
    d.payload, d.producer, d.created_at, d.failed_at
FROM @schema@.dead_letters d JOIN @schema@.queues q USING (queue_id)
WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.group_name = $2)
    AND ($3::text IS NULL OR d.partition = $3)
ORDER BY d.dead_letter_id DESC LIMIT $4 OFFSET $5
