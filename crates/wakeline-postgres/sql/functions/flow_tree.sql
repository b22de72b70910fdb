-- Returns an instance and all its descendants, including pending ones, parents before children,
-- generation by generation. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_tree(p_instance text, OUT o_instances text[])
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
BEGIN
    -- UNION, because an instance may be its own ancestor. Its rows are returned generation by
    -- generation.
    WITH RECURSIVE family AS (
        SELECT x.instance FROM @schema@.flow_lanes l
        JOIN @schema@.flow_instances x ON x.lane_id = l.lane_id
        WHERE l.instance = p_instance
        UNION
        SELECT c.instance FROM family f
        CROSS JOIN LATERAL (
            SELECT i.lane_id, i.instance FROM @schema@.flow_instances i
            WHERE i.parent = f.instance
            UNION ALL
            SELECT l.lane_id, l.instance FROM @schema@.flow_lanes l
            WHERE l.parent = f.instance AND l.phase = 0 AND EXISTS (
                SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts)
            ORDER BY lane_id) c
    )
    SELECT coalesce(array_agg(f.instance), '{}') INTO o_instances FROM family f;
END
$$;
