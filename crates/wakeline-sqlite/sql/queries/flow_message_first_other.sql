-- The place of the first message that is visible at ?2 and begins no execution.
-- Called by: message::take. Walks the lane in order, as far as messages begin something.
SELECT seq FROM lane_messages NOT INDEXED
WHERE lane_id = ?1 AND visible_at <= ?2 AND starts = 0 ORDER BY seq LIMIT 1
