-- Extends the leases of turns and activities to p_spans from now, in microseconds. The end of a
-- lease is never moved to an earlier time. The arrays have one element per lease: its lane, its
-- activity (p_works, NULL for a turn), and its lease token (p_keys). For each lease that is still
-- valid, returns its index and the state of the execution. Lock order: lanes by id, sessions by
-- name, work by id.

CREATE OR REPLACE FUNCTION @schema@.flow_renew(
    p_lanes bigint[], p_works bigint[], p_keys uuid[], p_spans bigint[])
RETURNS TABLE (token integer, state text)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_lanes bigint[];
    v_works bigint[];
    v_sessions text[];
BEGIN
    SELECT coalesce(array_agg(x.lane) FILTER (WHERE x.work IS NULL), '{}'),
        coalesce(array_agg(x.work) FILTER (WHERE x.work IS NOT NULL), '{}')
    INTO v_lanes, v_works
    FROM unnest(p_lanes, p_works) AS x (lane, work);
    IF v_lanes <> '{}' THEN
        PERFORM FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (v_lanes)
        ORDER BY l.lane_id FOR NO KEY UPDATE;
    END IF;
    IF v_works <> '{}' THEN
        v_sessions := ARRAY(SELECT DISTINCT w.session FROM @schema@.flow_work w
            WHERE w.work_id = ANY (v_works) AND w.session IS NOT NULL);
        PERFORM FROM @schema@.flow_sessions s WHERE s.session = ANY (v_sessions)
        ORDER BY s.session FOR NO KEY UPDATE;
        PERFORM FROM @schema@.flow_work w WHERE w.work_id = ANY (v_works)
        ORDER BY w.work_id FOR NO KEY UPDATE;
    END IF;
    v_now := @schema@.clock();
    RETURN QUERY
    WITH held AS (
        UPDATE @schema@.flow_lanes l SET
            lease_until = greatest(l.lease_until, v_now + x.span * interval '1 microsecond'),
            due_at = greatest(l.lease_until, v_now + x.span * interval '1 microsecond')
        FROM unnest(p_lanes, p_works, p_keys, p_spans) WITH ORDINALITY
            AS x (lane, work, key, span, ord)
        WHERE x.work IS NULL AND l.lane_id = x.lane AND l.lease_token = x.key
            AND l.lease_until > v_now
        RETURNING x.ord, l.lane_id
    )
    SELECT h.ord::integer, e.state FROM held h
    LEFT JOIN @schema@.flow_instances i ON i.lane_id = h.lane_id
    LEFT JOIN @schema@.flow_executions e ON e.lane_id = h.lane_id AND e.execution = i.execution;
    RETURN QUERY
    WITH held AS (
        UPDATE @schema@.flow_work w SET
            due_at = greatest(w.due_at, v_now + x.span * interval '1 microsecond')
        FROM unnest(p_lanes, p_works, p_keys, p_spans) WITH ORDINALITY
            AS x (lane, work, key, span, ord)
        WHERE w.work_id = x.work AND w.lane_id = x.lane AND w.lease_token = x.key
            AND w.state = 1 AND w.due_at > v_now
        RETURNING x.ord, w.lane_id, w.execution, w.session
    ), active AS (
        UPDATE @schema@.flow_sessions s SET active_at = v_now
        FROM (SELECT DISTINCT h.session FROM held h WHERE h.session IS NOT NULL) h
        WHERE s.session = h.session
    )
    SELECT h.ord::integer, e.state FROM held h
    LEFT JOIN @schema@.flow_executions e
        ON e.lane_id = h.lane_id AND e.execution = h.execution;
END
$$;
