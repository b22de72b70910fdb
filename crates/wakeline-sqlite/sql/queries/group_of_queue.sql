-- The groups of a queue, by name.
-- Called by: inspect::groups_of.
SELECT group_id, name FROM groups WHERE queue_id = ?1 ORDER BY name
