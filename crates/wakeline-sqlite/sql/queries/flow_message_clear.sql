-- Removes all messages of a lane.
DELETE FROM lane_messages WHERE lane_id = ?1
