-- The first message of a transaction id that was pushed at or after a moment.
-- INDEXED BY: for ORDER BY offset SQLite would rather walk the partition's whole log.
-- Called by: push::repeated.
SELECT id FROM messages INDEXED BY messages_transaction
WHERE partition_id = ?1 AND transaction_id = ?2 AND created_at >= ?3 ORDER BY offset LIMIT 1
