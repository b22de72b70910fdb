-- Returns a page of instances that may have old executions, in the order of their lanes, after a
-- position, and whether flow_prune would remove executions of each. p_instances: these instead, in
-- one page; NULL for all; p_before: only instances that ended before. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_prunable(
    p_instances text[], p_before timestamptz, p_after bigint, p_limit integer, p_keep bigint,
    p_ended_before timestamptz)
RETURNS TABLE (lane_id bigint, prunable boolean)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    v_lanes bigint[] := '{}';
    v_lane bigint := p_after;
BEGIN
    IF p_instances IS NOT NULL THEN
        v_lanes := ARRAY(
            SELECT l.lane_id FROM @schema@.flow_lanes l WHERE l.instance = ANY (p_instances));
    END IF;
    -- Only instances with more than one execution are in this index; each is read once.
    WHILE p_instances IS NULL AND cardinality(v_lanes) < p_limit LOOP
        SELECT e.lane_id INTO v_lane FROM @schema@.flow_executions e
        WHERE e.execution > 1 AND e.lane_id > v_lane ORDER BY e.lane_id LIMIT 1;
        EXIT WHEN v_lane IS NULL;
        v_lanes := v_lanes || v_lane;
    END LOOP;
    RETURN QUERY
    SELECT l.lane_id, EXISTS (
        SELECT FROM @schema@.flow_instances i
        WHERE i.lane_id = l.lane_id AND (p_before IS NULL OR i.ended_at < p_before)
            AND i.execution > greatest(p_keep, 1)
            AND EXISTS (
                SELECT FROM (
                    SELECT e.ended_at FROM @schema@.flow_executions e
                    WHERE e.lane_id = i.lane_id ORDER BY e.execution DESC
                    OFFSET greatest(p_keep, 1)) e
                WHERE p_ended_before IS NULL OR e.ended_at < p_ended_before))
    FROM unnest(v_lanes) WITH ORDINALITY AS l (lane_id, ord) ORDER BY l.ord;
END
$$;
