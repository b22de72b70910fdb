-- Returns the counts of partitions of a queue.
SELECT t.name, t.partition_id, t.total, t.pending, t.processing, t.retrying, t.given_up, t.dead,
    t.first_at, t.last_push_at
FROM @schema@.partition_counts($1, $2, $3) t
