-- Forgets how far a group has read a queue.
-- Called by: configure::delete_group.
DELETE FROM cursors
WHERE group_id = ?1 AND partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?2)
