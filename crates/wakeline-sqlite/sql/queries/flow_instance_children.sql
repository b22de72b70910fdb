-- The children of an instance, pending ones included, oldest first.
SELECT lane_id, instance FROM instances INDEXED BY instances_parent WHERE parent = ?1
UNION ALL
SELECT l.lane_id, l.instance FROM lanes l INDEXED BY lanes_parent
WHERE l.parent = ?1 AND EXISTS (SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id AND m.starts = 1)
ORDER BY lane_id
