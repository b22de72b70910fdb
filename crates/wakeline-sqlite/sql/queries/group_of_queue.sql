-- The groups of a queue, ordered by name.
SELECT group_id, name FROM groups WHERE queue_id = ?1 ORDER BY name
