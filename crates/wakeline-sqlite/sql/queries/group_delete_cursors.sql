-- Removes the cursors of a group in a queue.
DELETE FROM cursors
WHERE group_id = ?1 AND partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?2)
