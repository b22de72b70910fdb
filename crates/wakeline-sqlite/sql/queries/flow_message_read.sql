-- One message of a lane.
SELECT seq, attempts, payload FROM lane_messages WHERE lane_id = ?1 AND seq = ?2
