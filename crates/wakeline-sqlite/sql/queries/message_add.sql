-- Appends a message to its partition's log.
INSERT INTO messages (partition_id, offset, id, transaction_id, trace_id, producer, created_at, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
