-- Removes an execution.
-- Called by: admin::prune.
DELETE FROM executions WHERE lane_id = ?1 AND execution = ?2
