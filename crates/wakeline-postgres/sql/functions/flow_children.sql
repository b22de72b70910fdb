-- Returns children of some instances, including pending ones, in the order of p_parents, at most
-- p_limit; of the first parent only those after the lane p_after. place: the parent's index in
-- p_parents. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_children(
    p_parents text[], p_after bigint, p_limit integer)
RETURNS TABLE (place integer, lane bigint, instance text, ended boolean)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.ord::integer, c.lane_id, c.instance, c.ended_at IS NOT NULL
    FROM unnest(p_parents) WITH ORDINALITY AS p (name, ord)
    CROSS JOIN LATERAL (
        (SELECT i.lane_id, i.instance, i.ended_at FROM @schema@.flow_instances i
        WHERE i.parent = p.name AND i.lane_id > CASE WHEN p.ord = 1 THEN p_after ELSE 0 END
        ORDER BY i.lane_id LIMIT p_limit)
        UNION ALL
        (SELECT l.lane_id, l.instance, NULL FROM @schema@.flow_lanes l
        WHERE (l.parent, l.lane_id) > (p.name, CASE WHEN p.ord = 1 THEN p_after ELSE 0 END)
            AND l.parent <= p.name AND l.phase = 0
            AND EXISTS (
                SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts)
        ORDER BY l.parent, l.lane_id LIMIT p_limit)
        ORDER BY lane_id LIMIT p_limit) c
    LIMIT p_limit;
END
$$;
