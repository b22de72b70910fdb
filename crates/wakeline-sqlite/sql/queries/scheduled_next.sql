-- When the first scheduled message of a queue is due.
SELECT deliver_at FROM scheduled INDEXED BY scheduled_of_queue WHERE queue_id = ?1 ORDER BY deliver_at LIMIT 1
