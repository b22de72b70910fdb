-- Removes the traces of a partition. Called by: messages::delete_partition,
-- messages::clear_partition.
DELETE FROM traces WHERE partition_id = ?1
