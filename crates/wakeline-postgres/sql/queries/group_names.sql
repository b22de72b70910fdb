-- The names of groups. Called by: AccessStore::groups_of.
SELECT group_id, name FROM @schema@.groups WHERE group_id = ANY ($1)
