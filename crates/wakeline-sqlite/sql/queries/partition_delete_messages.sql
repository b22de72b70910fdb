-- Removes the messages of a partition. Called by: messages::delete_partition.
DELETE FROM messages WHERE partition_id = ?1
