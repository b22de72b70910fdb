-- The start that a pending instance waits with.
-- Called by: read::pending_start.
SELECT m.payload FROM lanes l
JOIN lane_messages m ON m.lane_id = l.lane_id AND m.starts = 1
WHERE l.instance = ?1 AND l.started_at IS NOT NULL
ORDER BY m.seq LIMIT 1
