-- The same of a lane.
-- Called by: unclaimed::of.
SELECT w.execution, w.activity, w.tag_id, w.name_id, coalesce(w.due_at, w.available_at)
FROM work w WHERE w.lane_id = ?1 AND coalesce(w.due_at, w.available_at) <= ?2
ORDER BY coalesce(w.due_at, w.available_at), w.work_id LIMIT ?3
