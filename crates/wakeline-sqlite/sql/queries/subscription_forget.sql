-- Removes the subscriptions of a group to queues that do not exist yet, or to one queue by its name
-- (?2).
DELETE FROM subscriptions WHERE group_name = ?1 AND (?2 IS NULL OR queue_name = ?2)
RETURNING queue_name, namespace, task
