-- Whether a message that can start an execution waits in a lane.
SELECT 1 FROM lane_messages INDEXED BY lane_messages_starts WHERE lane_id = ?1 AND starts = 1 LIMIT 1
