-- Removes some messages of an application.
-- Called by: chore::clear, after clear_payloads.
DELETE FROM hook_messages WHERE message_no IN (
    SELECT message_no FROM hook_messages INDEXED BY hook_messages_order
    WHERE application_no = ?1 ORDER BY message_no LIMIT ?2
)
