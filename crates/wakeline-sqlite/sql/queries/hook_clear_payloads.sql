-- Removes the payloads of the messages that hook_clear_messages removes next. Must run before it.
DELETE FROM hook_payloads WHERE message_no IN (
    SELECT message_no FROM hook_messages INDEXED BY hook_messages_order
    WHERE application_no = ?1 ORDER BY message_no LIMIT ?2
)
