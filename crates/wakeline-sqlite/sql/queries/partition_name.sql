-- The name of a partition. Called by: tally::depth.
SELECT name FROM partitions WHERE partition_id = ?1
