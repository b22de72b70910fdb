-- Removes the groups of a queue.
-- Called by: configure::delete_queue.
DELETE FROM groups WHERE queue_id = ?1
