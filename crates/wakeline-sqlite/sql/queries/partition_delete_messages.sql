-- Removes the messages of a partition. Called by: messages::delete_partition,
-- messages::clear_partition.
DELETE FROM messages WHERE partition_id = ?1
