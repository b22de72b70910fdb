-- The offsets of the messages with a transaction id between two offsets, lowest first. INDEXED BY:
-- a walk over all offsets between them would cost as much as the lease is long.
SELECT offset FROM messages INDEXED BY messages_transaction
WHERE partition_id = ?1 AND transaction_id = ?2 AND offset BETWEEN ?3 AND ?4 ORDER BY offset
