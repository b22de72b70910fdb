-- The state of an execution.
SELECT state FROM executions WHERE lane_id = ?1 AND execution = ?2
