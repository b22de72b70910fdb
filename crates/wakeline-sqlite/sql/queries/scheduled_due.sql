-- The messages of a queue that are due at a moment, in the order in which they were; ?3 at most.
-- Called by: schedule::move_due.
SELECT scheduled_id, partition_id FROM scheduled INDEXED BY scheduled_of_queue
WHERE queue_id = ?1 AND deliver_at <= ?2 ORDER BY deliver_at, scheduled_id LIMIT ?3
