-- Messages of a partition that have dead letters, and how many each. Called by: tally::partitions.
SELECT partition_id, offset, count(*) FROM dead_letters WHERE partition_id = ?1 GROUP BY offset
