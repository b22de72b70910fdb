-- An instance as readers see it.
SELECT i.lane_id, i.instance, i.name, i.parent, i.parent_event, i.execution, i.state, i.status, i.status_version,
       i.kv_version, i.created_at, i.updated_at, i.ended_at, i.output, l.capability_id, l.suspended, l.reason, e.version
FROM lanes l
JOIN instances i ON i.lane_id = l.lane_id
LEFT JOIN executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
WHERE l.instance = ?1
