-- Removes a group of a queue.
DELETE FROM groups WHERE group_id = ?1
