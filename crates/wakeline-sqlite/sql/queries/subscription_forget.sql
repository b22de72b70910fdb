-- Forgets where a group begins in queues to come, or in one by its name (?2).
-- Called by: configure::forget_subscriptions.
DELETE FROM subscriptions WHERE group_name = ?1 AND (?2 IS NULL OR queue_name = ?2)
RETURNING queue_name, namespace, task
