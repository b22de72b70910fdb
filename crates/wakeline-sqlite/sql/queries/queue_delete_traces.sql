-- Removes the traces of a queue.
DELETE FROM traces WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
