-- Returns a part of the history of an execution: as many batches as fit, and one more without its
-- events, which shows where to continue. One row without a batch if there is none.
SELECT e.execution, b.first_event, b.last_event,
    CASE WHEN b.place <= 1000 AND (b.place = 1 OR b.bytes <= $4::bigint) THEN b.events END
FROM @schema@.flow_lanes l
JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
JOIN @schema@.flow_executions e
    ON e.lane_id = i.lane_id AND e.execution = coalesce($2::bigint, i.execution)
LEFT JOIN LATERAL (
    SELECT h.*, sum(octet_length(h.events)) OVER w AS bytes, row_number() OVER w AS place
    FROM (
        SELECT h.first_event, h.last_event, h.events FROM @schema@.flow_history h
        WHERE h.lane_id = e.lane_id AND h.execution = e.execution AND h.last_event >= $3::bigint
            AND h.first_event >= coalesce((
                SELECT f.first_event FROM @schema@.flow_history f
                WHERE f.lane_id = e.lane_id AND f.execution = e.execution AND f.first_event <= $3
                ORDER BY f.first_event DESC LIMIT 1), 0)
        ORDER BY h.first_event LIMIT 1001
    ) h
    WINDOW w AS (ORDER BY h.first_event)
) b ON b.place <= 2 OR b.bytes - octet_length(b.events) <= $4::bigint
WHERE l.instance = $1
ORDER BY b.first_event
