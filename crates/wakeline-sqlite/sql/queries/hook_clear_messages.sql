-- Removes some messages of an application. Must run after hook_clear_payloads with the same
-- parameters.
DELETE FROM hook_messages WHERE message_no IN (
    SELECT message_no FROM hook_messages INDEXED BY hook_messages_order
    WHERE application_no = ?1 ORDER BY message_no LIMIT ?2
)
