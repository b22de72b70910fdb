-- Puts a message into its lane, unless the lane has one of this key.
-- Called by: message::append.
INSERT INTO lane_messages (lane_id, seq, visible_at, starts, key_execution, key_event, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (lane_id, key_execution, key_event) WHERE key_execution IS NOT NULL DO NOTHING
