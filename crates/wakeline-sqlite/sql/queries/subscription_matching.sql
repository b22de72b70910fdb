-- The stored subscriptions that match a new queue, oldest first.
SELECT subscription_id, group_name, mode, from_at, created_at FROM subscriptions
WHERE queue_name = ?1
   OR (queue_name IS NULL AND (namespace IS NULL OR namespace IS ?2) AND (task IS NULL OR task IS ?3))
ORDER BY subscription_id
