-- Ends an instance without its code: its lease, messages and work are removed, and messages are
-- sent to others. With p_name it ends a pending one, which is first recorded under that name and
-- its parent; without p_name a running one. Rows: kind 0, whether there was no such instance to end
-- (code 1), and whether it was watched; kind 2, a turn of a capability (what) became available, or
-- will in due_us. Lock order: lanes, work.

CREATE OR REPLACE FUNCTION @schema@.flow_terminate(
    p_instance text, p_state text, p_output bytea, p_messages jsonb, p_blobs bytea[],
    p_name text, p_parent text, p_parent_event bigint)
RETURNS TABLE (kind smallint, code smallint, watched boolean, due_us bigint, what text)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    v_lane bigint;
    v_lanes @schema@.flow_lanes[];
    v_now timestamptz;
    i integer;
    p record;
    f record;
    h record;
BEGIN
    kind := 0; code := 1; watched := false;
    SELECT l.lane_id INTO v_lane FROM @schema@.flow_lanes l WHERE l.instance = p_instance
        AND l.phase < 2;
    IF NOT FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_lanes := @schema@.flow_lock(ARRAY[v_lane], ARRAY(
        SELECT x->>'instance' FROM jsonb_array_elements(p_messages) AS x));
    v_now := @schema@.clock();
    i := array_position(ARRAY(SELECT x.lane_id FROM unnest(v_lanes) AS x), v_lane);
    IF i IS NULL OR v_lanes[i].phase <> (CASE WHEN p_name IS NULL THEN 1 ELSE 0 END)
        OR (p_name IS NOT NULL AND NOT EXISTS (
            SELECT FROM @schema@.flow_messages m WHERE m.lane_id = v_lane AND m.starts))
    THEN
        RETURN NEXT;
        RETURN;
    END IF;
    code := 0; watched := v_lanes[i].watched;
    RETURN NEXT;
    IF v_lanes[i].phase = 0 THEN
        INSERT INTO @schema@.flow_instances (lane_id, instance, name, parent, parent_event,
            execution, state, created_at, updated_at)
        VALUES (v_lane, p_instance, p_name, p_parent, p_parent_event, 1, p_state, v_now, v_now);
        INSERT INTO @schema@.flow_executions (lane_id, execution, state, started_at)
        VALUES (v_lane, 1, p_state, v_now);
    END IF;
    UPDATE @schema@.flow_instances x SET state = p_state, ended_at = v_now
    WHERE x.lane_id = v_lane;
    UPDATE @schema@.flow_executions x SET state = p_state, output = p_output, ended_at = v_now
    FROM @schema@.flow_instances y
    WHERE y.lane_id = v_lane AND x.lane_id = v_lane AND x.execution = y.execution;
    PERFORM @schema@.flow_kv_merge(ARRAY[v_lane]);
    DELETE FROM @schema@.flow_messages m WHERE m.lane_id = v_lane;
    PERFORM @schema@.flow_work_remove(ARRAY(
        SELECT w.work_id FROM @schema@.flow_work w WHERE w.lane_id = v_lane));
    v_lanes[i].phase := 2; v_lanes[i].due_at := NULL; v_lanes[i].watched := false;
    v_lanes[i].suspended := NULL; v_lanes[i].reason := NULL;
    v_lanes[i].lease_token := NULL; v_lanes[i].lease_until := NULL;
    v_lanes[i].lease_at := NULL; v_lanes[i].lease_seq := NULL;
    SELECT x.* INTO p FROM @schema@.flow_put(v_lanes, p_messages, p_blobs, ARRAY[true], v_now) AS x;
    PERFORM @schema@.flow_save(p.o_lanes);
    SELECT x.* INTO f FROM @schema@.flow_changed_lanes(p.o_lanes, p.o_firsts, p.o_commands) AS x;
    kind := 2; code := NULL; watched := NULL;
    FOR h IN SELECT * FROM @schema@.flow_hints(
        v_lanes, p.o_lanes, f.o_fresh, f.o_by, v_now) LOOP
        due_us := h.o_due_us; what := h.o_what;
        RETURN NEXT;
    END LOOP;
END
$$;
