-- The first message with a transaction id that was pushed at or after a time. INDEXED BY: because
-- of ORDER BY offset, SQLite would otherwise walk the whole log of the partition.
SELECT id FROM messages INDEXED BY messages_transaction
WHERE partition_id = ?1 AND transaction_id = ?2 AND created_at >= ?3 ORDER BY offset LIMIT 1
