-- Forgets a group. Called by: QueueAdmin::delete_group.
SELECT @schema@.group_delete($1, $2)
