-- The offsets of a transaction id between two offsets, the lowest first.
-- Called by: settle::unsettled. Walks messages_transaction.
SELECT offset FROM messages
WHERE partition_id = ?1 AND transaction_id = ?2 AND offset BETWEEN ?3 AND ?4 ORDER BY offset
