-- Removes the groups of a queue.
DELETE FROM groups WHERE queue_id = ?1
