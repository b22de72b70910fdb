-- Removes the parked messages of a group in a queue, or in one of its partitions (?3).
DELETE FROM retries
WHERE group_id = ?1 AND partition_id IN (
    SELECT partition_id FROM partitions WHERE queue_id = ?2 AND (?3 IS NULL OR name = ?3))
