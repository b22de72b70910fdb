-- Removes a message.
-- Called by: chore::expire.
DELETE FROM hook_messages WHERE message_no = ?1
