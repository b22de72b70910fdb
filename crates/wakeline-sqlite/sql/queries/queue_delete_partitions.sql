-- Removes the partitions of a queue.
-- Called by: configure::delete_queue.
DELETE FROM partitions WHERE queue_id = ?1
