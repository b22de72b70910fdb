-- Returns the activities of an instance that have not ended, oldest first.
SELECT w.execution, w.activity, w.attempts,
    w.lease_token IS NOT NULL AND w.due_at > c.now,
    CASE WHEN w.lease_token IS NULL AND w.due_at > c.now THEN w.due_at END,
    w.last_error, b.payload
FROM (SELECT @schema@.clock() AS now) c
JOIN @schema@.flow_lanes l ON l.instance = $1
JOIN @schema@.flow_work w ON w.lane_id = l.lane_id
JOIN @schema@.flow_work_bodies b ON b.work_id = w.work_id
ORDER BY w.work_id LIMIT $2
