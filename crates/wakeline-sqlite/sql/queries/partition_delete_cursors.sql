-- Removes the cursors of a partition.
DELETE FROM cursors WHERE partition_id = ?1
