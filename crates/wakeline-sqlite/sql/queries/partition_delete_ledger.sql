-- Removes what the ledger has of a partition. Called by: messages::delete_partition.
DELETE FROM ledger_entries WHERE partition_id = ?1
