-- Stores a message that is held until maintenance ends.
INSERT INTO scheduled (queue_id, partition_id, deliver_at, id, transaction_id, trace_id, producer, scheduled_at, payload, held)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?3, ?8, 1)
