-- Returns the counts of queues.
SELECT t.queue_id, t.name, t.namespace, t.task, t.created_at, t.priority, t.partitions, t.behind,
    t.leased, t.dead_partitions, t.leases, t.total, t.pending, t.processing, t.retrying, t.given_up,
    t.dead, t.expired, t.evicted, t.dropped
FROM @schema@.queue_counts($1, $2, $3) t
