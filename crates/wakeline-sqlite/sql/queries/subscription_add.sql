-- Remembers where a group begins in queues that come later, unless it is remembered already.
-- Called by: group::remember.
INSERT INTO subscriptions (group_name, queue_name, namespace, task, mode, from_at, created_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
WHERE NOT EXISTS (
    SELECT 1 FROM subscriptions
    WHERE group_name = ?1 AND queue_name IS ?2 AND namespace IS ?3 AND task IS ?4)
