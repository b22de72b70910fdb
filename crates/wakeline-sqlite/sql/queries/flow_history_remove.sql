-- Removes the history of an execution.
-- Called by: admin::prune.
DELETE FROM history WHERE lane_id = ?1 AND execution = ?2
