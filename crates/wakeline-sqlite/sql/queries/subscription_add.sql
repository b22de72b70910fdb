-- Stores where a group starts to read in queues that are created later.
INSERT INTO subscriptions (group_name, queue_name, namespace, task, mode, from_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
