-- Whether an instance has children, or may have children that are pending.
SELECT EXISTS (SELECT 1 FROM instances INDEXED BY instances_parent WHERE parent = ?1)
    OR EXISTS (SELECT 1 FROM lanes INDEXED BY lanes_parent WHERE parent = ?1)
