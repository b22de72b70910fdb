-- Returns the current key-value state: the state at the begin of the execution with the changes of
-- the execution.
SELECT k.key, k.value, k.execution, k.updated_at
FROM @schema@.flow_lanes l
CROSS JOIN LATERAL (
    SELECT s.key, s.value, s.execution, s.updated_at FROM @schema@.flow_kv s
    WHERE s.lane_id = l.lane_id AND NOT EXISTS (
        SELECT FROM @schema@.flow_kv_delta d WHERE d.lane_id = s.lane_id AND d.key = s.key)
    UNION ALL
    SELECT d.key, d.value, d.execution, d.updated_at FROM @schema@.flow_kv_delta d
    WHERE d.lane_id = l.lane_id AND d.value IS NOT NULL
) k
WHERE l.instance = $1 AND ($2::text IS NULL OR k.key = $2)
ORDER BY k.key COLLATE "C"
