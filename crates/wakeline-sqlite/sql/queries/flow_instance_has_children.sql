-- Whether an instance has children.
-- Called by: delete::unlink.
SELECT EXISTS (SELECT 1 FROM instances INDEXED BY instances_parent WHERE parent = ?1)
