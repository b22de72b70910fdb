-- Returns instances by name, in order; for a missing one, whether a start message waits, and then
-- it is pending. A node of an earlier release does not write when an instance was started: then the
-- current time is returned.
SELECT coalesce(l.phase, 0)::smallint, EXISTS (
        SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts),
    l.instance, coalesce(i.name, split_part(c.name, '@', 1)) AS name,
    nullif(e.version, '') AS version, c.name AS capability, coalesce(i.state, 'pending') AS state,
    CASE WHEN l.suspended IS NOT NULL THEN coalesce(l.reason, '') END AS suspended,
    CASE WHEN i.ended_at IS NOT NULL THEN e.output END AS output, i.status,
    coalesce(i.status_version, 0) AS status_version, coalesce(i.kv_version, 0) AS kv_version,
    coalesce(i.execution, 0) AS execution,
    CASE WHEN i.lane_id IS NULL THEN l.parent ELSE i.parent END AS parent,
    coalesce(i.created_at, l.started_at, @schema@.clock()) AS created_at,
    coalesce(i.updated_at, l.started_at, @schema@.clock()) AS updated_at, i.ended_at
FROM unnest($1::text[]) WITH ORDINALITY AS n (instance, ord)
LEFT JOIN @schema@.flow_lanes l ON l.instance = n.instance
LEFT JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
LEFT JOIN @schema@.flow_executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
LEFT JOIN @schema@.flow_capabilities c ON c.capability_id = l.capability_id
ORDER BY n.ord
