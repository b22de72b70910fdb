-- Removes the scheduled messages of a partition.
DELETE FROM scheduled WHERE partition_id = ?1
