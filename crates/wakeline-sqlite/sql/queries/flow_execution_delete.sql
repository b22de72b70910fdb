-- Removes the executions of an instance.
-- Called by: delete::remove.
DELETE FROM executions WHERE lane_id = ?1
