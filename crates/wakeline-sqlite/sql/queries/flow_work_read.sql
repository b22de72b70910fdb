-- One activity, without its payload.
SELECT w.work_id, w.lane_id, l.instance, w.execution, w.activity, w.tag_id, w.session, w.due_at, w.lease_key,
       w.lease_until, w.attempts, w.name_id
FROM work w JOIN lanes l ON l.lane_id = w.lane_id WHERE w.work_id = ?1
