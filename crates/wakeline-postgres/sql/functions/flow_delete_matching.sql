-- Deletes ended instances that have no parent, with all below them; those with a descendant that
-- has not ended are passed over. p_instances: only these, NULL for all; p_before: only those that
-- ended before.
-- Called by: FlowAdmin::delete_matching. Lock order: lanes, work.

CREATE OR REPLACE FUNCTION @schema@.flow_delete_matching(
    p_instances text[], p_before timestamptz, p_limit bigint,
    OUT o_count bigint, OUT o_executions bigint, OUT o_events bigint, OUT o_messages bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    r record;
    t record;
    e record;
    v_roots bigint := 0;
    v_doomed bigint[] := '{}';
    v_locked @schema@.flow_lanes[];
BEGIN
    o_count := 0; o_executions := 0; o_events := 0; o_messages := 0;
    FOR r IN SELECT i.instance FROM @schema@.flow_instances i
        WHERE i.ended_at IS NOT NULL AND (p_before IS NULL OR i.ended_at < p_before)
            AND i.parent IS NULL AND (p_instances IS NULL OR i.instance = ANY (p_instances))
        ORDER BY i.ended_at, i.instance
    LOOP
        EXIT WHEN v_roots >= p_limit;
        SELECT x.* INTO t FROM @schema@.flow_tree(r.instance) AS x;
        CONTINUE WHEN EXISTS (SELECT FROM @schema@.flow_lanes l
            WHERE l.lane_id = ANY (t.o_lanes) AND l.phase < 2);
        v_doomed := v_doomed || t.o_lanes;
        v_roots := v_roots + 1;
    END LOOP;
    IF v_doomed = '{}' THEN
        RETURN;
    END IF;
    v_locked := @schema@.flow_lock(v_doomed, '{}');
    IF EXISTS (SELECT FROM unnest(v_locked) AS l WHERE l.phase < 2)
        OR EXISTS (SELECT FROM unnest(v_locked) AS l
            JOIN @schema@.flow_instances i ON i.parent = l.instance
            WHERE i.lane_id <> ALL (v_doomed))
    THEN
        RAISE EXCEPTION 'a lane has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    v_doomed := ARRAY(SELECT l.lane_id FROM unnest(v_locked) AS l);
    SELECT x.* INTO e FROM @schema@.flow_erase(v_doomed) AS x;
    o_count := cardinality(v_doomed);
    o_executions := e.o_executions; o_events := e.o_events; o_messages := e.o_messages;
END
$$;
