-- A scheduled message by its timer key.
SELECT scheduled_id, id, transaction_id, deliver_at FROM scheduled INDEXED BY scheduled_key
WHERE queue_id = ?1 AND timer_key = ?2
