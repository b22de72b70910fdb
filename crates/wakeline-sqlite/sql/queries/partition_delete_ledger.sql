-- Removes the ledger entries of a partition.
DELETE FROM ledger_entries WHERE partition_id = ?1
