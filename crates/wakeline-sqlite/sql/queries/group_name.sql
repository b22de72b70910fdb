-- A group's name.
-- Called by: settle::group_name, AccessStore::groups_of.
SELECT name FROM groups WHERE group_id = ?1
