-- The first message with a number greater than or equal to ?1, and when it was stored.
SELECT message_no, created_at FROM hook_messages WHERE message_no >= ?1 ORDER BY message_no LIMIT 1
