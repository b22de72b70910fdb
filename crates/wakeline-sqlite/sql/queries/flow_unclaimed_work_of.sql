-- Activities of one lane that became available at ?2 or before, among its oldest thousand; longest
-- wait first.
SELECT w.execution, w.activity, w.tag_id, w.name_id, coalesce(w.due_at, w.available_at)
FROM (SELECT * FROM work WHERE lane_id = ?1 ORDER BY execution, activity LIMIT 1000) w
WHERE coalesce(w.due_at, w.available_at) <= ?2
ORDER BY coalesce(w.due_at, w.available_at), w.execution, w.activity LIMIT ?3
