-- Removes the dead letters of a queue.
-- Called by: configure::delete_queue.
DELETE FROM dead_letters WHERE queue_id = ?1
