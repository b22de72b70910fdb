-- The children of an instance, oldest first.
-- Called by: read::tree.
SELECT instance FROM instances INDEXED BY instances_parent WHERE parent = ?1 ORDER BY lane_id
