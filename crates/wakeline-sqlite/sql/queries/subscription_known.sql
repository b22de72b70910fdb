-- Whether it is remembered where a group begins in queues of a name, or of a namespace and task.
-- Called by: group::knows.
SELECT 1 FROM subscriptions
WHERE group_name = ?1 AND queue_name IS ?2 AND namespace IS ?3 AND task IS ?4
