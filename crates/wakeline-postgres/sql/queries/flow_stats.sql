-- Counts what an instance stores.
SELECT coalesce(e.last_event, 0), coalesce(e.history_bytes, 0),
    (SELECT count(*) FROM @schema@.flow_messages m WHERE m.lane_id = i.lane_id),
    (SELECT count(*) FROM @schema@.flow_work w WHERE w.lane_id = i.lane_id),
    k.keys, k.bytes
FROM @schema@.flow_lanes l
JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
LEFT JOIN @schema@.flow_executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
CROSS JOIN LATERAL (
    SELECT count(*) AS keys, coalesce(sum(octet_length(x.value)), 0)::bigint AS bytes FROM (
        SELECT s.value FROM @schema@.flow_kv s
        WHERE s.lane_id = i.lane_id AND NOT EXISTS (
            SELECT FROM @schema@.flow_kv_delta d WHERE d.lane_id = s.lane_id AND d.key = s.key)
        UNION ALL
        SELECT d.value FROM @schema@.flow_kv_delta d
        WHERE d.lane_id = i.lane_id AND d.value IS NOT NULL
    ) x
) k
WHERE l.instance = $1
