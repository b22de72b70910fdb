-- Copies a message to the dead letters of a group.
INSERT INTO dead_letters (queue_id, partition_id, offset, group_name, id, transaction_id, trace_id,
                          producer, created_at, payload, failures, error, failed_at)
SELECT g.queue_id, m.partition_id, m.offset, g.name, m.id, m.transaction_id, m.trace_id,
       m.producer, m.created_at, m.payload, ?4, ?5, ?6
FROM messages m JOIN groups g ON g.group_id = ?3
WHERE m.partition_id = ?1 AND m.offset = ?2
