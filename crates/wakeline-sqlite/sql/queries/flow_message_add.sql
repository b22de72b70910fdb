-- Adds a message to its lane, unless the lane has a message with the same key.
INSERT INTO lane_messages (lane_id, seq, visible_at, starts, key_execution, key_event, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (lane_id, key_execution, key_event) WHERE key_execution IS NOT NULL DO NOTHING
