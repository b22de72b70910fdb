-- The start that a pending instance waits with. Called by: FlowReader::pending_start.
SELECT m.payload FROM @schema@.flow_lanes l
JOIN @schema@.flow_messages m ON m.lane_id = l.lane_id AND m.starts
WHERE l.instance = $1 AND l.phase = 0
ORDER BY m.seq LIMIT 1
