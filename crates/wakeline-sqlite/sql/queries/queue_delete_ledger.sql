-- Removes what the ledger has of a queue. Called by: configure::delete_queue.
DELETE FROM ledger_entries
WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
