-- Starts housekeeping of a queue when it gets time limits, or ends it when it has none any more (?2
-- is NULL).
INSERT INTO housekeeping (queue_id, due_at) VALUES (?1, ?2)
ON CONFLICT (queue_id) DO UPDATE SET due_at = ?2, after_partition = 0, next_at = NULL
