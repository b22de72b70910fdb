-- The log of a partition from an offset on.
-- Called by: take::take_log.
SELECT offset, id, transaction_id, trace_id, producer, created_at, payload
FROM messages WHERE partition_id = ?1 AND offset >= ?2 ORDER BY offset LIMIT ?3
