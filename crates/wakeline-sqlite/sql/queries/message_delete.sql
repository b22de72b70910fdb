-- Deletes one message.
DELETE FROM messages WHERE partition_id = ?1 AND offset = ?2
