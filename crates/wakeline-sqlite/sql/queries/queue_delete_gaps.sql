-- Forgets the gaps of a queue's partitions. Called by: configure::delete_queue, messages::clear.
DELETE FROM gaps WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
