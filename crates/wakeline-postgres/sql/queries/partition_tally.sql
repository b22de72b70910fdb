-- How partitions of a queue stand, in numbers. Called by: QueueTallies::partition_tallies.
SELECT t.name, t.partition_id, t.total, t.pending, t.processing, t.retrying, t.given_up, t.dead,
    t.first_at, t.last_push_at
FROM @schema@.partition_tally($1, $2, $3) t
