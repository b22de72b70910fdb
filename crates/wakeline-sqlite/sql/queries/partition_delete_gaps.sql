-- Forgets the gaps of a partition. Called by: messages::delete_partition, messages::clear_partition.
DELETE FROM gaps WHERE partition_id = ?1
