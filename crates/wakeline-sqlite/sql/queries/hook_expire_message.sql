-- Removes a message whose attempts and deliveries were removed.
DELETE FROM hook_messages WHERE message_no = ?1
