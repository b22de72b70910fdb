-- How queues stand, in numbers. Called by: QueueTallies::queue_tallies.
SELECT t.queue_id, t.name, t.namespace, t.task, t.created_at, t.priority, t.partitions, t.behind,
    t.leased, t.dead_partitions, t.leases, t.total, t.pending, t.processing, t.retrying, t.given_up,
    t.dead, t.expired, t.evicted, t.dropped
FROM @schema@.queue_tally($1, $2, $3) t
