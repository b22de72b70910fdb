-- A group's name.
-- Called by: settle::group_name.
SELECT name FROM groups WHERE group_id = ?1
