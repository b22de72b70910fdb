-- Deletes a message for all groups. Called by: QueueMessages::delete_message.
SELECT * FROM @schema@.message_delete($1, $2)
