-- Removes the retries of a partition. Called by: messages::delete_partition,
-- messages::clear_partition.
DELETE FROM retries WHERE partition_id = ?1
