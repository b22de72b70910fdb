-- Messages that wait in the lane of an instance, in order.
SELECT m.seq, m.visible_at, m.payload FROM lanes l
JOIN lane_messages m ON m.lane_id = l.lane_id
WHERE l.instance = ?1
ORDER BY m.seq LIMIT ?2
