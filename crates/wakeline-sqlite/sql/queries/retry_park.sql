-- Parks a message, or updates its row if it is parked.
INSERT INTO retries (partition_id, group_id, offset, failures, due_at, alone, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (partition_id, group_id, offset) DO UPDATE
SET failures = excluded.failures, due_at = excluded.due_at, alone = excluded.alone, error = excluded.error
