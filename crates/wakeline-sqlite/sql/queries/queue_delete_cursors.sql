-- Removes the cursors of a queue.
DELETE FROM cursors WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
