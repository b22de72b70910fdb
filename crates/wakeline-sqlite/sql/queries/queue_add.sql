-- Inserts a queue.
INSERT INTO queues (name, namespace, task, options, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
