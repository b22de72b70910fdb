-- Children of an instance that began until ?3, in order, from a place on.
-- Called by: delete::follow.
SELECT lane_id FROM instances INDEXED BY instances_parent
WHERE parent = ?1 AND lane_id > ?2 AND created_at <= ?3 ORDER BY lane_id LIMIT ?4
