-- Activities of a tag, name and taker (who may run them: see the table work) that became available
-- at ?4 or before, among those that were leased or delayed before; longest wait first. Uses the
-- index work_due.
SELECT l.instance, w.execution, w.activity, w.tag_id, w.name_id, w.due_at
FROM work w INDEXED BY work_due
CROSS JOIN lanes l ON l.lane_id = w.lane_id
WHERE w.tag_id = ?1 AND w.name_id = ?2 AND w.taker = ?3 AND w.due_at <= ?4
ORDER BY w.due_at LIMIT ?5
