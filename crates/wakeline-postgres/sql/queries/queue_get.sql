-- A queue as it stands. Called by: QueueAdmin::queue and configure.
SELECT q.queue_id, q.namespace, q.task, p.partition_id, q.lease_secs, q.retry_limit,
    q.retry_delay_ms, q.retry_delay_ms_max, q.retry_exponential, q.dead_letters, q.priority,
    q.delay_secs, q.window_secs, q.strict_order, q.strict_fencing, q.dedup_window_secs
FROM @schema@.queues q
JOIN @schema@.partitions p ON p.queue_id = q.queue_id AND p.name = 'Default'
WHERE q.name = $1
