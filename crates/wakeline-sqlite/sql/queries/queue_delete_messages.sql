-- Removes the messages of a queue.
-- Called by: configure::delete_queue.
DELETE FROM messages WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
