-- Makes a queue with time limits due for housekeeping at ?2. NULL ends its housekeeping, because it
-- has no time limits any more.
INSERT INTO housekeeping (queue_id, due_at) VALUES (?1, ?2)
ON CONFLICT (queue_id) DO UPDATE SET due_at = ?2, after_partition = 0, next_at = NULL
