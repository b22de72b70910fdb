-- Forgets what a group has parked in a queue.
-- Called by: configure::delete_group, configure::resubscribe.
DELETE FROM retries
WHERE group_id = ?1 AND partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?2)
