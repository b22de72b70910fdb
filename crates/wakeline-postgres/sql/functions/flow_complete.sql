-- Removes leased work and stores the messages to its instances, for several completions. Rows of
-- kind 0: codes contains 0 completed or 1 stale per completion, followed by the outcomes of all
-- messages, in order (see flow_put). Kinds 1 and 2: see flow_enqueue. Lock order: lanes, sessions
-- by name, work by id.

CREATE OR REPLACE FUNCTION @schema@.flow_complete(
    p_lanes bigint[], p_works bigint[], p_keys uuid[], p_messages jsonb, p_requests jsonb,
    p_blobs bytea[])
RETURNS TABLE (
    kind smallint, codes smallint[], command integer, due_us bigint, what text,
    ids bigint[], commands integer[], requests integer[], now_at timestamptz)
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes @schema@.flow_lanes[];
    v_sessions text[];
    v_now timestamptz;
    v_held boolean[];
    v_ok boolean[];
    v_fresh integer[];
    v_by integer[];
    p record;
    b record;
    h record;
BEGIN
    -- A first check, so that a stale completion creates no lane.
    SELECT array_agg(w.work_id IS NOT NULL ORDER BY x.ord),
        array_agg(DISTINCT w.session) FILTER (WHERE w.session IS NOT NULL)
    INTO v_held, v_sessions
    FROM unnest(p_lanes, p_works, p_keys) WITH ORDINALITY AS x (lane, work, key, ord)
    LEFT JOIN @schema@.flow_work w
        ON w.work_id = x.work AND w.lane_id = x.lane AND w.lease_token = x.key;
    v_lanes := @schema@.flow_lock('{}', ARRAY(
        SELECT x.instance FROM jsonb_to_recordset(p_messages) AS x (c integer, instance text)
        WHERE v_held[x.c]));
    IF v_sessions IS NOT NULL THEN
        PERFORM FROM @schema@.flow_sessions s WHERE s.session = ANY (v_sessions)
        ORDER BY s.session FOR NO KEY UPDATE;
    END IF;
    PERFORM FROM @schema@.flow_work w WHERE w.work_id = ANY (p_works)
    ORDER BY w.work_id FOR UPDATE;
    v_now := @schema@.clock();
    SELECT array_agg(v_held[x.ord] AND w.work_id IS NOT NULL ORDER BY x.ord) INTO v_ok
    FROM unnest(p_works, p_keys) WITH ORDINALITY AS x (work, key, ord)
    LEFT JOIN @schema@.flow_work w ON w.work_id = x.work AND w.lease_token = x.key
        AND w.state = 1 AND w.due_at > v_now;
    IF v_sessions IS NOT NULL THEN
        UPDATE @schema@.flow_sessions s SET active_at = v_now
        FROM (
            SELECT DISTINCT w.session FROM unnest(p_works) WITH ORDINALITY AS x (work, ord)
            JOIN @schema@.flow_work w ON w.work_id = x.work AND w.session IS NOT NULL
            WHERE v_ok[x.ord]
        ) a
        WHERE s.session = a.session;
    END IF;
    WITH done AS (
        DELETE FROM @schema@.flow_work w
        USING unnest(p_works) WITH ORDINALITY AS x (work, ord)
        WHERE w.work_id = x.work AND v_ok[x.ord]
        RETURNING w.work_id
    )
    DELETE FROM @schema@.flow_work_bodies d USING done WHERE d.work_id = done.work_id;
    SELECT x.* INTO p FROM @schema@.flow_put(v_lanes, p_messages, p_blobs, v_ok, v_now) AS x;
    SELECT x.* INTO v_fresh, v_by
    FROM @schema@.flow_changed_lanes(p.o_lanes, p.o_firsts, p.o_commands) AS x;
    SELECT x.* INTO b
    FROM @schema@.flow_lease_on_insert(p.o_lanes, v_fresh, v_by, p_requests, v_ok, v_now) AS x;
    PERFORM @schema@.flow_save(b.o_lanes);
    kind := 0;
    codes := ARRAY(SELECT CASE WHEN x THEN 0 ELSE 1 END::smallint FROM unnest(v_ok) AS x)
        || p.o_outcomes;
    RETURN NEXT;
    kind := 2; codes := NULL;
    FOR h IN SELECT * FROM @schema@.flow_hints(v_lanes, b.o_lanes, v_fresh, v_by, v_now) LOOP
        command := h.o_command; due_us := h.o_due_us; what := h.o_what;
        RETURN NEXT;
    END LOOP;
    IF b.o_ids <> '{}' THEN
        kind := 1; command := NULL; due_us := NULL; what := NULL;
        ids := b.o_ids; commands := b.o_commands; requests := b.o_requests; now_at := v_now;
        RETURN NEXT;
    END IF;
END
$$;
