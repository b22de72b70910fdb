-- The executions of an instance, oldest first.
SELECT execution, version, state, output, last_event, history_bytes, started_at, ended_at
FROM executions WHERE lane_id = ?1 ORDER BY execution
