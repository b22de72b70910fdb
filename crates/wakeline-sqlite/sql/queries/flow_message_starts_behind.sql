-- The sequence numbers of visible messages that can start an execution, after ?3, last first.
SELECT seq FROM lane_messages INDEXED BY lane_messages_starts
WHERE lane_id = ?1 AND starts = 1 AND visible_at <= ?2 AND seq > ?3 ORDER BY seq DESC
