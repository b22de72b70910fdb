-- Whether an instance has children, or pending ones may wait for their first turn.
-- Called by: delete::unlink.
SELECT EXISTS (SELECT 1 FROM instances INDEXED BY instances_parent WHERE parent = ?1)
    OR EXISTS (SELECT 1 FROM lanes INDEXED BY lanes_parent WHERE parent = ?1)
