-- Removes the ledger entries of a queue.
DELETE FROM ledger_entries
WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
