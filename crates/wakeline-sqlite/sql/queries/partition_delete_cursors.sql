-- Removes the cursors of a partition. Called by: messages::delete_partition.
DELETE FROM cursors WHERE partition_id = ?1
