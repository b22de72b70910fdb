-- Appends a due message to its partition's log, with an offset (?2) and a time (?3).
INSERT INTO messages (partition_id, offset, id, transaction_id, trace_id, producer, created_at, payload)
SELECT partition_id, ?2, id, transaction_id, trace_id, producer, ?3, payload FROM scheduled WHERE scheduled_id = ?1
