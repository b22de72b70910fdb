-- Whether a subscription of a group to queues with a name, or with a namespace and a task, is
-- stored.
SELECT 1 FROM subscriptions
WHERE group_name = ?1 AND queue_name IS ?2 AND namespace IS ?3 AND task IS ?4
