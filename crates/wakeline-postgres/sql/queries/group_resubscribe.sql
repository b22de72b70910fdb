-- Moves a group to a moment. Called by: QueueAdmin::resubscribe.
SELECT queue, partition, namespace, task, due_us FROM @schema@.group_resubscribe($1, $2)
