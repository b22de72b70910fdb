-- Returns the executions of an instance, oldest first.
SELECT e.execution, nullif(e.version, ''), e.state, e.output, e.last_event, e.history_bytes,
    e.started_at, e.ended_at
FROM @schema@.flow_lanes l
JOIN @schema@.flow_executions e ON e.lane_id = l.lane_id
WHERE l.instance = $1
ORDER BY e.execution
