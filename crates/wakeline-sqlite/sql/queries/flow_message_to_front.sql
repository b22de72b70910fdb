-- Moves a message to the front of its lane.
UPDATE lane_messages SET seq = (SELECT min(seq) - 1 FROM lane_messages WHERE lane_id = ?1)
WHERE lane_id = ?1 AND seq = ?2
