-- Removes the row of an execution; its history is removed separately.
DELETE FROM executions WHERE lane_id = ?1 AND execution = ?2
