-- Removes a partition; what was in it is gone already. Called by: messages::delete_partition.
DELETE FROM partitions WHERE partition_id = ?1
