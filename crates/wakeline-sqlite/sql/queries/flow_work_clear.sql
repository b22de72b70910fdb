-- Removes all activities of a lane.
-- Called by: delete::clear.
DELETE FROM work WHERE lane_id = ?1
