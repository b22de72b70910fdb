-- Removes the scheduled messages of a partition. Called by: messages::delete_partition.
DELETE FROM scheduled WHERE partition_id = ?1
