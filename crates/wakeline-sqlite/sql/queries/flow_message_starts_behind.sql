-- The places of visible messages that may begin an execution, behind the place ?3, the last first.
-- Called by: message::take.
SELECT seq FROM lane_messages INDEXED BY lane_messages_starts
WHERE lane_id = ?1 AND starts = 1 AND visible_at <= ?2 AND seq > ?3 ORDER BY seq DESC
