-- Removes the dead letters of a partition. Called by: messages::delete_partition,
-- messages::clear_partition.
DELETE FROM dead_letters WHERE partition_id = ?1
