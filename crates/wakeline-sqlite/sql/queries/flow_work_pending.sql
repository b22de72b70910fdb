-- Activities of an instance that have not ended, oldest first.
SELECT w.execution, w.activity, w.attempts, w.lease_until, w.due_at, w.last_error, w.payload
FROM lanes l JOIN work w ON w.lane_id = l.lane_id
WHERE l.instance = ?1 ORDER BY w.work_id LIMIT ?2
