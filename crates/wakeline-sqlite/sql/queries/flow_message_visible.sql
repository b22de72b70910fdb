-- The places of messages that are visible at ?2, up to the place ?3, in no useful order.
-- Called by: message::visible.
SELECT seq FROM lane_messages INDEXED BY lane_messages_visible
WHERE lane_id = ?1 AND visible_at <= ?2 AND seq <= ?3 LIMIT ?4
