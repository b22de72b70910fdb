-- Removes the traces of a queue. Called by: configure::delete_queue, messages::clear.
DELETE FROM traces WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
