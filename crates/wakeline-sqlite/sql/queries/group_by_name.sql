-- A group of a queue by its name.
-- Called by: Session::group.
SELECT group_id FROM groups WHERE queue_id = ?1 AND name = ?2
