-- Removes the partitions of a queue.
DELETE FROM partitions WHERE queue_id = ?1
