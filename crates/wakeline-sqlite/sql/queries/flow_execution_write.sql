-- Inserts an execution, or updates it if it exists.
INSERT INTO executions (lane_id, execution, version, state, output, last_event, history_bytes, started_at, ended_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (lane_id, execution) DO UPDATE SET version = ?3, state = ?4, output = ?5, last_event = ?6,
    history_bytes = ?7, ended_at = ?9
