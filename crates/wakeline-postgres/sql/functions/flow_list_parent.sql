-- Returns a page of the children of an instance, newest first, including those that wait for their
-- first turn: both branches read an index of its children in this order. It is a function for the
-- sake of its planner settings: a plan that expects almost no rows would sort all children.
-- Otherwise it is the same as the query flow_list. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_list_parent(
    p_name text, p_states text[], p_suspended boolean, p_prefix text, p_parent text,
    p_from timestamptz, p_until timestamptz, p_before timestamptz, p_behind text, p_limit bigint)
RETURNS TABLE (
    instance text, name text, version text, capability text, state text, suspended text,
    output bytea, status text, status_version bigint, kv_version bigint, execution bigint,
    parent text, created_at timestamptz, updated_at timestamptz, ended_at timestamptz)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT x.* FROM (
        (SELECT i.instance, i.name, nullif(e.version, '') AS version, c.name AS capability, i.state,
            CASE WHEN l.suspended IS NOT NULL THEN coalesce(l.reason, '') END AS suspended,
            CASE WHEN i.ended_at IS NOT NULL THEN e.output END AS output, i.status,
            i.status_version, i.kv_version, i.execution, i.parent, i.created_at, i.updated_at, i.ended_at
        FROM @schema@.flow_instances i
        JOIN @schema@.flow_lanes l ON l.lane_id = i.lane_id
        LEFT JOIN @schema@.flow_executions e ON e.lane_id = i.lane_id AND e.execution = i.execution
        LEFT JOIN LATERAL (
            SELECT c.name FROM @schema@.flow_capabilities c
            WHERE c.capability_id = l.capability_id LIMIT 1) c ON true
        WHERE i.parent = p_parent
            AND (p_name IS NULL OR i.name = p_name)
            AND (cardinality(p_states) = 0 OR i.state = ANY (p_states))
            AND p_states <> '{pending}'
            AND (p_suspended IS NULL OR (l.suspended IS NOT NULL) = p_suspended)
            AND (p_prefix IS NULL OR starts_with(i.instance, p_prefix))
            AND (p_from IS NULL OR i.created_at >= p_from)
            AND (p_until IS NULL OR i.created_at < p_until)
            AND (i.created_at, i.instance)
                < (coalesce(p_before, 'infinity'), coalesce(p_behind, '') COLLATE "C")
        ORDER BY i.created_at DESC, i.instance DESC
        LIMIT p_limit)
        UNION ALL
        (SELECT l.instance, split_part(c.name, '@', 1), NULL, c.name, 'pending',
            CASE WHEN l.suspended IS NOT NULL THEN coalesce(l.reason, '') END, NULL, NULL, 0,
            0, 0, l.parent, l.started_at, l.started_at, NULL
        FROM @schema@.flow_lanes l
        CROSS JOIN LATERAL (
            SELECT c.name FROM @schema@.flow_capabilities c
            WHERE c.capability_id = l.capability_id LIMIT 1) c
        WHERE l.parent = p_parent AND l.phase = 0 AND l.started_at IS NOT NULL AND (
                SELECT true FROM @schema@.flow_messages m
                WHERE m.lane_id = l.lane_id AND m.starts LIMIT 1)
            AND (p_name IS NULL OR split_part(c.name, '@', 1) = p_name)
            AND (cardinality(p_states) = 0 OR 'pending' = ANY (p_states))
            AND (p_suspended IS NULL OR (l.suspended IS NOT NULL) = p_suspended)
            AND (p_prefix IS NULL OR starts_with(l.instance, p_prefix))
            AND (p_from IS NULL OR l.started_at >= p_from)
            AND (p_until IS NULL OR l.started_at < p_until)
            AND (l.started_at, l.instance)
                < (coalesce(p_before, 'infinity'), coalesce(p_behind, '') COLLATE "C")
        ORDER BY l.started_at DESC, l.instance DESC
        LIMIT p_limit)
    ) x
    ORDER BY x.created_at DESC, x.instance COLLATE "C" DESC
    LIMIT p_limit;
END
$$;
