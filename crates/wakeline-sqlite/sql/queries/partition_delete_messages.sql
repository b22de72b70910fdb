-- Removes the messages of a partition.
DELETE FROM messages WHERE partition_id = ?1
