-- The message of a transaction id that waits in a partition, except one (?3).
-- Called by: schedule::waits.
SELECT id FROM scheduled INDEXED BY scheduled_transaction
WHERE partition_id = ?1 AND transaction_id = ?2 AND scheduled_id IS NOT ?3 ORDER BY scheduled_id LIMIT 1
