-- The first message from a number on, and when it was stored.
-- Called by: job::before.
SELECT message_no, created_at FROM hook_messages WHERE message_no >= ?1 ORDER BY message_no LIMIT 1
