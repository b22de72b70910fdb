-- Inserts a redrive, unless it exists.
INSERT INTO redrives (id, letter, queue, group_name, partition, from_at, to_at, error, to_queue,
                      rate, last, total, due_at, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?13)
ON CONFLICT DO NOTHING
