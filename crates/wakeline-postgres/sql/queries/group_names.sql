-- Returns the names of groups.
SELECT group_id, name FROM @schema@.groups WHERE group_id = ANY ($1)
