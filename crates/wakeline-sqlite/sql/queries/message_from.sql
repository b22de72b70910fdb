-- Messages of a partition's log, from an offset on.
SELECT offset, id, transaction_id, trace_id, producer, created_at, payload
FROM messages WHERE partition_id = ?1 AND offset >= ?2 ORDER BY offset LIMIT ?3
