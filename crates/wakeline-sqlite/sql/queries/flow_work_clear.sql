-- Removes all activities of a lane.
DELETE FROM work WHERE lane_id = ?1
