-- Removes the scheduled messages of a queue.
-- Called by: configure::delete_queue.
DELETE FROM scheduled WHERE queue_id = ?1
