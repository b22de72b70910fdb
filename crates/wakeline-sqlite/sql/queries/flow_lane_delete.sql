-- Removes the row of a lane.
DELETE FROM lanes WHERE lane_id = ?1
