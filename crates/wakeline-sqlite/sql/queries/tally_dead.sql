-- Messages of a queue that have dead letters, and how many each. Called by: tally::queues.
SELECT partition_id, offset, count(*) FROM dead_letters WHERE queue_id = ?1 GROUP BY partition_id, offset
