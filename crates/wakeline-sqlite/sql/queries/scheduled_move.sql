-- Appends a message that was due to its partition's log, with an offset (?2) and a time (?3).
-- Called by: schedule::move_due.
INSERT INTO messages (partition_id, offset, id, transaction_id, trace_id, producer, created_at, payload)
SELECT partition_id, ?2, id, transaction_id, trace_id, producer, ?3, payload FROM scheduled WHERE scheduled_id = ?1
