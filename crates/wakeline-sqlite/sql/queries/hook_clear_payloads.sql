-- Removes the payloads of the messages that go next.
-- Called by: chore::clear, before clear_messages.
DELETE FROM hook_payloads WHERE message_no IN (
    SELECT message_no FROM hook_messages INDEXED BY hook_messages_order
    WHERE application_no = ?1 ORDER BY message_no LIMIT ?2
)
