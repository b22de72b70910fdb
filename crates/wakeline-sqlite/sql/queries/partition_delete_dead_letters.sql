-- Removes the dead letters of a partition.
DELETE FROM dead_letters WHERE partition_id = ?1
