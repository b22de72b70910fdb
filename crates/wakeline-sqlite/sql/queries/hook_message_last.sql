-- The number of the last message.
SELECT message_no FROM hook_messages ORDER BY message_no DESC LIMIT 1
