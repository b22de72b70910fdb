-- The number of the last message.
-- Called by: job::before.
SELECT message_no FROM hook_messages ORDER BY message_no DESC LIMIT 1
