-- Removes a lane.
-- Called by: delete::remove.
DELETE FROM lanes WHERE lane_id = ?1
