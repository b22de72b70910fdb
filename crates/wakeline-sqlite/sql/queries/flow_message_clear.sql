-- Removes all messages of a lane.
-- Called by: delete::clear.
DELETE FROM lane_messages WHERE lane_id = ?1
