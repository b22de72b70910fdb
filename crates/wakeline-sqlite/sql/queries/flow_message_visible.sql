-- The sequence numbers, up to ?3, of messages that are visible at ?2, in no particular order.
SELECT seq FROM lane_messages INDEXED BY lane_messages_visible
WHERE lane_id = ?1 AND visible_at <= ?2 AND seq <= ?3 LIMIT ?4
