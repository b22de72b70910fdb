-- Removes the messages of a queue.
DELETE FROM messages WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
