-- Removes a queue; what was in it is gone already.
-- Called by: configure::delete_queue.
DELETE FROM queues WHERE queue_id = ?1
