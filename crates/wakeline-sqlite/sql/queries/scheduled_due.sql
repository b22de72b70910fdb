-- Up to ?3 messages of a queue that are due at a time, in the order of their due times.
SELECT scheduled_id, partition_id FROM scheduled INDEXED BY scheduled_of_queue
WHERE queue_id = ?1 AND deliver_at <= ?2 ORDER BY deliver_at, scheduled_id LIMIT ?3
