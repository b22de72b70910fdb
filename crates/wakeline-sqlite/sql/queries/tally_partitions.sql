-- How many partitions a queue has, and what was ever pushed to them. Called by: tally::queues.
SELECT count(*), coalesce(sum(next_offset), 0) FROM partitions WHERE queue_id = ?1
