-- A group of a queue by its name.
SELECT group_id FROM groups WHERE queue_id = ?1 AND name = ?2
