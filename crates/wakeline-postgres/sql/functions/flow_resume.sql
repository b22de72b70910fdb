-- Ends suspensions: of one instance, or, if it is NULL, of those that were held back for a
-- mismatch and need one of some capabilities: a piece of those behind the lane p_after. One row per
-- capability: how many, and the time until the first is due, if any is; and, if there may be more,
-- one with the last lane of the piece.
-- Called by: FlowAdmin::resume, FlowAdmin::retry_mismatched. Lock order: lanes by id.

CREATE OR REPLACE FUNCTION @schema@.flow_resume(p_instance text, p_caps jsonb, p_after bigint)
RETURNS TABLE (resumed bigint, what text, due_us bigint, last_lane bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes bigint[];
    v_found bigint[];
    v_now timestamptz;
BEGIN
    IF p_instance IS NOT NULL THEN
        v_lanes := ARRAY(SELECT l.lane_id FROM @schema@.flow_lanes l
            WHERE l.instance = p_instance AND l.suspended IS NOT NULL FOR NO KEY UPDATE);
    ELSE
        -- By the index of those that are suspended: OFFSET 0 keeps the planner from walking all
        -- lanes in the order of the limit.
        v_found := ARRAY(SELECT x.lane_id FROM (
                SELECT l.lane_id FROM @schema@.flow_lanes l
                WHERE l.suspended = 'mismatch' AND l.lane_id > p_after
                    AND l.capability_id = ANY (@schema@.flow_capabilities_of(p_caps)) OFFSET 0) x
            ORDER BY x.lane_id LIMIT 1000);
        v_lanes := ARRAY(SELECT l.lane_id FROM @schema@.flow_lanes l
            WHERE l.lane_id = ANY (v_found) AND l.suspended = 'mismatch'
            ORDER BY l.lane_id FOR NO KEY UPDATE);
    END IF;
    v_now := @schema@.clock();
    RETURN QUERY
    WITH done AS (
        UPDATE @schema@.flow_lanes l SET suspended = NULL, reason = NULL,
            due_at = CASE WHEN l.capability_id IS NOT NULL THEN (
                SELECT m.visible_at FROM @schema@.flow_messages m
                WHERE m.lane_id = l.lane_id ORDER BY m.visible_at LIMIT 1) END
        WHERE l.lane_id = ANY (v_lanes)
        RETURNING l.capability_id, l.due_at
    )
    SELECT count(*), min(c.name),
        CASE WHEN min(d.due_at) <= v_now THEN 0
            ELSE ceil(extract(epoch FROM min(d.due_at) - v_now) * 1000000)::bigint END,
        NULL::bigint
    FROM done d LEFT JOIN @schema@.flow_capabilities c ON c.capability_id = d.capability_id
    GROUP BY d.capability_id;
    IF cardinality(v_found) = 1000 THEN
        RETURN QUERY SELECT 0::bigint, NULL::text, NULL::bigint, v_found[1000];
    END IF;
END
$$;
