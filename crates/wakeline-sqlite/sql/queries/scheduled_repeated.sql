-- The scheduled message with a transaction id in a partition, except the one in row ?3.
SELECT id FROM scheduled INDEXED BY scheduled_transaction
WHERE partition_id = ?1 AND transaction_id = ?2 AND scheduled_id IS NOT ?3 ORDER BY scheduled_id LIMIT 1
