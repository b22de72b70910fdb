-- Messages of a partition before an offset, newest first, without their payloads.
SELECT offset, id, transaction_id, trace_id, producer, created_at
FROM messages WHERE partition_id = ?1 AND offset < ?2 ORDER BY offset DESC
