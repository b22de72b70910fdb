-- Removes old messages.
SELECT o_messages, o_deliveries, o_attempts, o_next_at, o_next
FROM @schema@.hook_expire($1, $2, $3, $4)
