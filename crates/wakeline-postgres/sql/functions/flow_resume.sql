-- Ends suspensions: of one instance, or, if it is NULL, of a batch of the instances that were
-- suspended for a mismatch and need one of some capabilities, after the capability p_capability and
-- its lane p_after. Returns one row per capability: how many, and the time until the first is due,
-- if any is; and, if there may be more, one row with the last capability and lane of the batch.
-- Lock order: lanes by id.

CREATE OR REPLACE FUNCTION @schema@.flow_resume(
    p_instance text, p_caps jsonb, p_capability bigint, p_after bigint)
RETURNS TABLE (
    resumed bigint, what text, due_us bigint, last_capability bigint, last_lane bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_capability integer;
    v_lanes bigint[];
    v_found bigint[] := '{}';
    v_now timestamptz;
BEGIN
    IF p_instance IS NOT NULL THEN
        v_lanes := ARRAY(SELECT l.lane_id FROM @schema@.flow_lanes l
            WHERE l.instance = p_instance AND l.suspended IS NOT NULL FOR NO KEY UPDATE);
    ELSE
        FOR v_capability IN
            SELECT c FROM unnest(@schema@.flow_capabilities_of(p_caps)) AS c
            WHERE c >= p_capability ORDER BY c
        LOOP
            -- Reads flow_lanes_mismatched, and no further than the batch.
            v_found := v_found || ARRAY(SELECT l.lane_id FROM @schema@.flow_lanes l
                WHERE l.suspended = 'mismatch' AND l.capability_id = v_capability
                    AND l.lane_id > CASE WHEN v_capability = p_capability THEN p_after ELSE 0 END
                ORDER BY l.capability_id, l.lane_id LIMIT 1000 - cardinality(v_found));
            EXIT WHEN cardinality(v_found) = 1000;
        END LOOP;
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
        NULL::bigint, NULL::bigint
    FROM done d LEFT JOIN @schema@.flow_capabilities c ON c.capability_id = d.capability_id
    GROUP BY d.capability_id;
    IF cardinality(v_found) = 1000 THEN
        RETURN QUERY
        SELECT 0::bigint, NULL::text, NULL::bigint, v_capability::bigint, v_found[1000];
    END IF;
END
$$;
