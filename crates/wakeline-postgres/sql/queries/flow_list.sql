-- Returns a page of instances, newest first. Both branches read an index in this order: pending
-- instances are lanes without a row in flow_instances. $5 is not used; flow_list_parent has the
-- parent there.
SELECT x.* FROM (
    (SELECT i.instance, i.name, nullif(e.version, '') AS version, c.name AS capability, i.state,
        CASE WHEN l.suspended IS NOT NULL THEN coalesce(l.reason, '') END AS suspended,
        CASE WHEN i.ended_at IS NOT NULL THEN e.output END AS output, i.status, i.status_version,
        i.kv_version, i.execution, i.parent, i.created_at, i.updated_at, i.ended_at
    FROM @schema@.flow_instances i
    JOIN @schema@.flow_lanes l ON l.lane_id = i.lane_id
    LEFT JOIN @schema@.flow_executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
    LEFT JOIN @schema@.flow_capabilities c ON c.capability_id = l.capability_id
    WHERE $5::text IS NULL AND ($1::text IS NULL OR i.name = $1) AND (cardinality($2::text[]) = 0 OR i.state = ANY ($2))
        AND $2 <> '{pending}'
        AND ($3::boolean IS NULL OR (l.suspended IS NOT NULL) = $3)
        AND ($4::text IS NULL OR starts_with(i.instance, $4))
        AND ($6::timestamptz IS NULL OR i.created_at >= $6)
        AND ($7::timestamptz IS NULL OR i.created_at < $7)
        AND ($8::timestamptz IS NULL OR (i.created_at, i.instance) < ($8, $9::text COLLATE "C"))
    ORDER BY i.created_at DESC, i.instance DESC
    LIMIT $10)
    UNION ALL
    (SELECT l.instance, split_part(c.name, '@', 1), NULL, c.name, 'pending',
        CASE WHEN l.suspended IS NOT NULL THEN coalesce(l.reason, '') END, NULL, NULL, 0,
        0, 0, l.parent, l.started_at, l.started_at, NULL
    FROM @schema@.flow_lanes l
    JOIN @schema@.flow_capabilities c ON c.capability_id = l.capability_id
    WHERE l.phase = 0 AND l.started_at IS NOT NULL AND EXISTS (
            SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts)
        AND ($1::text IS NULL OR split_part(c.name, '@', 1) = $1)
        AND (cardinality($2::text[]) = 0 OR 'pending' = ANY ($2))
        AND ($3::boolean IS NULL OR (l.suspended IS NOT NULL) = $3)
        AND ($4::text IS NULL OR starts_with(l.instance, $4))
        AND ($6::timestamptz IS NULL OR l.started_at >= $6)
        AND ($7::timestamptz IS NULL OR l.started_at < $7)
        AND ($8::timestamptz IS NULL OR (l.started_at, l.instance) < ($8, $9::text COLLATE "C"))
    ORDER BY l.started_at DESC, l.instance DESC
    LIMIT $10)
) x
ORDER BY x.created_at DESC, x.instance COLLATE "C" DESC
LIMIT $10
