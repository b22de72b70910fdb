-- Stores messages in lanes, for several commands. Rows of kind 0: codes contains the outcomes of
-- all messages, in order (see flow_put). Kind 1: lanes whose turns were leased to requests that
-- were passed with the commands. Kind 2: a turn of a capability (what) became available, or will in
-- due_us. Lock order: lanes.

CREATE OR REPLACE FUNCTION @schema@.flow_enqueue(
    p_commands integer, p_messages jsonb, p_requests jsonb, p_blobs bytea[])
RETURNS TABLE (
    kind smallint, codes smallint[], command integer, due_us bigint, what text,
    ids bigint[], commands integer[], requests integer[], now_at timestamptz)
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_lanes @schema@.flow_lanes[];
    v_now timestamptz;
    v_ok boolean[] := array_fill(true, ARRAY[p_commands]);
    v_fresh integer[];
    v_by integer[];
    p record;
    b record;
    h record;
BEGIN
    v_lanes := @schema@.flow_lock('{}',
        ARRAY(SELECT x->>'instance' FROM jsonb_array_elements(p_messages) AS x));
    v_now := @schema@.clock();
    SELECT x.* INTO p FROM @schema@.flow_put(v_lanes, p_messages, p_blobs, v_ok, v_now) AS x;
    SELECT x.* INTO v_fresh, v_by
    FROM @schema@.flow_changed_lanes(p.o_lanes, p.o_firsts, p.o_commands) AS x;
    SELECT x.* INTO b
    FROM @schema@.flow_lease_on_insert(p.o_lanes, v_fresh, v_by, p_requests, v_ok, v_now) AS x;
    PERFORM @schema@.flow_save(b.o_lanes);
    kind := 0; codes := p.o_outcomes;
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
