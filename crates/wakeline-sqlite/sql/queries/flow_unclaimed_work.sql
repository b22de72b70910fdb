-- Activities that could be claimed at a moment and were not; longest first.
-- Called by: unclaimed::all.
SELECT l.instance, w.execution, w.activity, w.tag_id, w.name_id, coalesce(w.due_at, w.available_at)
FROM work w JOIN lanes l ON l.lane_id = w.lane_id
WHERE coalesce(w.due_at, w.available_at) <= ?1
ORDER BY coalesce(w.due_at, w.available_at), w.work_id LIMIT ?2
