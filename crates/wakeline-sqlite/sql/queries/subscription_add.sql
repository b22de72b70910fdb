-- Remembers where a group begins in queues that come later.
-- Called by: group::remember.
INSERT INTO subscriptions (group_name, queue_name, namespace, task, mode, from_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
