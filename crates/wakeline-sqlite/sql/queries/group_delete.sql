-- Forgets a group of a queue.
-- Called by: configure::delete_group.
DELETE FROM groups WHERE group_id = ?1
