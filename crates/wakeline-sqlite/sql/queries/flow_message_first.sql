-- The sequence numbers of the first visible messages of a lane that has very many. Reads the lane
-- in order.
SELECT seq FROM lane_messages NOT INDEXED
WHERE lane_id = ?1 AND visible_at <= ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4
