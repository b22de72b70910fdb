-- Deletes a group.
SELECT queue, namespace, task, cursors FROM @schema@.group_delete($1, $2)
