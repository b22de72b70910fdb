-- Returns a page of ended instances that have no parent, after a position, those that ended first
-- in front. p_instances: only these, NULL for all; p_before: only those that ended before. parents:
-- whether the instance has children. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_ended_roots(
    p_instances text[], p_before timestamptz, p_after_at timestamptz, p_after text,
    p_limit integer)
RETURNS TABLE (ended_at timestamptz, instance text, parents boolean)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    v_before timestamptz := coalesce(p_before, 'infinity');
BEGIN
    IF p_instances IS NULL THEN
        RETURN QUERY
        SELECT i.ended_at, i.instance, EXISTS (
            SELECT FROM @schema@.flow_instances c WHERE c.parent = i.instance)
            OR EXISTS (
            SELECT FROM @schema@.flow_lanes c WHERE c.parent = i.instance AND c.phase = 0)
        FROM @schema@.flow_instances i
        WHERE i.ended_at IS NOT NULL AND i.parent IS NULL AND i.ended_at < v_before
            AND (i.ended_at, i.instance) > (p_after_at, p_after)
        ORDER BY i.ended_at, i.instance LIMIT p_limit;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT i.ended_at, i.instance, EXISTS (
        SELECT FROM @schema@.flow_instances c WHERE c.parent = i.instance)
        OR EXISTS (
        SELECT FROM @schema@.flow_lanes c WHERE c.parent = i.instance AND c.phase = 0)
    FROM @schema@.flow_lanes l
    JOIN @schema@.flow_instances i ON i.lane_id = l.lane_id
    WHERE l.instance = ANY (p_instances) AND i.ended_at IS NOT NULL AND i.parent IS NULL
        AND i.ended_at < v_before AND (i.ended_at, i.instance) > (p_after_at, p_after)
    ORDER BY i.ended_at, i.instance LIMIT p_limit;
END
$$;
