-- When the first message of a lane becomes visible.
SELECT visible_at FROM lane_messages INDEXED BY lane_messages_visible
WHERE lane_id = ?1 ORDER BY visible_at LIMIT 1
