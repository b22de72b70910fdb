-- The sequence number of the first message that is visible at ?2 and cannot start an execution.
-- Reads the lane in order, over the messages before it that can.
SELECT seq FROM lane_messages NOT INDEXED
WHERE lane_id = ?1 AND visible_at <= ?2 AND starts = 0 ORDER BY seq LIMIT 1
