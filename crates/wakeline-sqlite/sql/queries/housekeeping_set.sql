-- A queue got limits of time, or lost them (?2 NULL). Called by: configure.
INSERT INTO housekeeping (queue_id, due_at) VALUES (?1, ?2)
ON CONFLICT (queue_id) DO UPDATE SET due_at = ?2, after_partition = 0, next_at = NULL
