-- Removes some messages of a lane.
DELETE FROM lane_messages WHERE lane_id = ?1 AND seq IN (SELECT m.seq FROM lane_messages m WHERE m.lane_id = ?1 LIMIT ?2)
