-- Inserts a group of a queue.
INSERT INTO groups (queue_id, name, mode, from_at, created_at, polled_at, settled)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)
