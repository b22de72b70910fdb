-- Removes the parked messages of a queue.
DELETE FROM retries WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
