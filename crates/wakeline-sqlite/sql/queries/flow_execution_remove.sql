-- Removes an execution.
-- Called by: delete::prune.
DELETE FROM executions WHERE lane_id = ?1 AND execution = ?2
