-- One execution by its number.
SELECT execution, version, state, output, last_event, history_bytes, started_at, ended_at
FROM executions WHERE lane_id = ?1 AND execution = ?2
