-- Removes the gaps of a partition.
DELETE FROM gaps WHERE partition_id = ?1
