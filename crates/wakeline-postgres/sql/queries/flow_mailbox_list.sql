-- Returns ids under which messages wait and that were never started, after a given id. Uses the
-- index flow_lanes_early.
SELECT l.instance, (
        SELECT count(*) FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id) AS messages, (
        SELECT min(m.visible_at) FROM @schema@.flow_messages m
        WHERE m.lane_id = l.lane_id) AS oldest_at
FROM @schema@.flow_lanes l
WHERE l.phase = 0 AND l.capability_id IS NULL
    AND ($1::text IS NULL OR starts_with(l.instance, $1))
    AND ($2::text IS NULL OR l.instance > $2)
    AND EXISTS (SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id)
ORDER BY l.instance
LIMIT $3
