-- Removes the history of an execution.
-- Called by: delete::prune.
DELETE FROM history WHERE lane_id = ?1 AND execution = ?2
