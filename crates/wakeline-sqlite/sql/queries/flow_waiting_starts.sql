-- Messages in the lane of an instance that can start an execution, in order.
SELECT m.payload FROM lanes l
JOIN lane_messages m ON m.lane_id = l.lane_id AND m.starts = 1
WHERE l.instance = ?1
ORDER BY m.seq
