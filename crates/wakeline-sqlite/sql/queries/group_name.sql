-- The name of a group.
SELECT name FROM groups WHERE group_id = ?1
