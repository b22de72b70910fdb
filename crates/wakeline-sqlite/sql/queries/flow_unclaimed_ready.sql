-- Activities of a tag, name and taker (who may run them: see the table work) that became available
-- at ?4 or before, among the oldest ?5 that can be claimed. Uses the index work_ready.
SELECT l.instance, w.execution, w.activity, w.tag_id, w.name_id, w.available_at
FROM (SELECT * FROM work INDEXED BY work_ready
      WHERE tag_id = ?1 AND name_id = ?2 AND taker = ?3 AND due_at IS NULL ORDER BY work_id LIMIT ?5) w
JOIN lanes l ON l.lane_id = w.lane_id
WHERE w.available_at <= ?4
