-- The first message of a transaction id that was pushed at or after a moment.
-- Called by: push::repeated.
SELECT id FROM messages
WHERE partition_id = ?1 AND transaction_id = ?2 AND created_at >= ?3 ORDER BY offset LIMIT 1
