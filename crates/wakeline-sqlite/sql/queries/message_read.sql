-- One message by its partition and offset.
SELECT offset, id, transaction_id, trace_id, producer, created_at, payload
FROM messages WHERE partition_id = ?1 AND offset = ?2
