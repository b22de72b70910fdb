-- Deletes a message. Called by: delete::delete.
DELETE FROM messages WHERE partition_id = ?1 AND offset = ?2
