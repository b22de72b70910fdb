-- Removes the gaps of a queue's partitions.
DELETE FROM gaps WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
