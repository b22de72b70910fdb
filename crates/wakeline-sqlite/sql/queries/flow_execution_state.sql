-- How an execution stands.
-- Called by: WorkRow::state.
SELECT state FROM executions WHERE lane_id = ?1 AND execution = ?2
