-- The name of a partition.
SELECT name FROM partitions WHERE partition_id = ?1
