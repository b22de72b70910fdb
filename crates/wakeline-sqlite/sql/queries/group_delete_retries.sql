-- Forgets what a group has parked in a queue, or in one partition of it (?3).
-- Called by: groups::delete_group, groups::seek.
DELETE FROM retries
WHERE group_id = ?1 AND partition_id IN (
    SELECT partition_id FROM partitions WHERE queue_id = ?2 AND (?3 IS NULL OR name = ?3))
