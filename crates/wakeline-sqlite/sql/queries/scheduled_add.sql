-- Stores a message that is to be delivered later.
INSERT INTO scheduled (queue_id, partition_id, deliver_at, timer_key, id, transaction_id, trace_id, producer, scheduled_at, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
