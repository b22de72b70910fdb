-- Deletes a message for all groups.
SELECT * FROM @schema@.message_delete($1, $2)
