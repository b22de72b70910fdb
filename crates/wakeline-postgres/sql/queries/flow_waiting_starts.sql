-- Returns the messages in the lane of an instance that may begin an execution, in order.
SELECT m.payload FROM @schema@.flow_lanes l
JOIN @schema@.flow_messages m ON m.lane_id = l.lane_id AND m.starts
WHERE l.instance = $1
ORDER BY m.seq
