-- Commits turns: each completely or not at all. Rows of kind 0: codes as in flow_commit_check and
-- lasts, the last events, one per command; outcomes of all messages, in order (see flow_put). Kinds
-- 1 and 2: see flow_enqueue. Kind 4: work that was leased to requests that were passed with the
-- commits. Kind 5: work of a tag became available, or will in due_us. Kind 6: the outcome, status
-- or key-value state of an instance changed; watched: a waiter in some process has asked to be
-- notified. Pushes are allowed with a single command only. Kind 3: as push, one row per slot. If a
-- slot has a state other than 0, nothing was written, there are no other rows, and the node tries
-- again as after a push. p_commands: an array of objects. key: the key of the lease; name, parent,
-- parent_event: of a birth; capability, version: pinned; first, last, events: history, with the
-- index in p_blobs; statuses: their number, status: the last one; kv: whether it changed; kv_clear:
-- whether all keys are cleared first; ending: how the execution ended; output: the index in
-- p_blobs; clear: remove everything from the lane. p_kv: objects of c, key, value (index in
-- p_blobs, null if cleared). p_work_*: see flow_work_add. p_unwork: objects of c, execution,
-- activity; p_unsend: of c, execution, event. Lock order: partitions by id and their cursors
-- (waits, by lock_timeout), lanes, tries sessions, work.

CREATE OR REPLACE FUNCTION @schema@.flow_commit(
    p_commands jsonb, p_kv jsonb, p_work_commands integer[], p_work_executions bigint[],
    p_work_activities bigint[], p_work_routes bigint[], p_work_sessions text[],
    p_work_afters bigint[], p_work_ats bigint[], p_work_bodies bytea[], p_unwork jsonb,
    p_messages jsonb, p_unsend jsonb, p_turn_requests jsonb, p_work_requests jsonb,
    p_blobs bytea[],
    p_partitions bigint[], p_lens integer[], p_checks boolean[], p_froms bigint[], p_tos bigint[],
    p_known_slots integer[], p_known_offsets bigint[], p_known_txns text[],
    p_chunk_slots integer[], p_chunk_starts integer[], p_chunk_lens integer[],
    p_chunk_items integer[], p_chunk_txns text[], p_chunk_bodies bytea[],
    p_ids uuid[], p_ends integer[], p_traces uuid[], p_producers text[],
    p_sealed boolean[])
RETURNS TABLE (
    kind smallint, codes smallint[], lasts bigint[], outcomes smallint[], command integer,
    watched boolean, due_us bigint, what text, activity text, ids bigint[], commands integer[],
    requests integer[], now_at timestamptz,
    slot integer, state smallint, first_offset bigint, created_at timestamptz, window_secs bigint,
    wait_secs bigint, namespace text, task text, known_txns text[], known_ids uuid[],
    known_offsets bigint[], delta_firsts bigint[], delta_ats timestamptz[], delta_txns text[])
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    r record;
    k record;
    p record;
    b record;
    w record;
    v_before @schema@.flow_lanes[];
    v_lanes @schema@.flow_lanes[];
    v_now timestamptz;
    v_ok boolean[];
    v_own bigint[];
    v_phases smallint[];
    v_fresh integer[];
    v_by integer[];
    v_notified boolean[];
    w_first bigint[];
    w_at timestamptz[];
    w_partition bigint[] := '{}';
    w_queue integer[] := '{}';
    w_wait bigint[] := '{}';
    w_strict boolean[] := '{}';
BEGIN
    IF p_partitions <> '{}' THEN
        PERFORM set_config('lock_timeout', '5s', true);
        w_first := array_fill(-1::bigint, ARRAY[cardinality(p_partitions)]);
        w_at := array_fill('epoch'::timestamptz, ARRAY[cardinality(p_partitions)]);
        kind := 3;
        v_ok := ARRAY[true];
        FOR r IN SELECT * FROM @schema@.push_check(p_partitions, p_checks, p_froms, p_tos,
            p_known_slots, p_known_offsets, p_known_txns, p_chunk_slots, p_chunk_txns, p_sealed,
            true)
        LOOP
            slot := r.o_slot; state := r.o_state; first_offset := r.o_end; created_at := r.o_at;
            window_secs := r.o_window; wait_secs := r.o_wait; namespace := r.o_namespace;
            task := r.o_task; known_txns := r.o_known_txns; known_ids := r.o_known_ids;
            known_offsets := r.o_known_offsets; delta_firsts := r.o_delta_firsts;
            delta_ats := r.o_delta_ats; delta_txns := r.o_delta_txns;
            RETURN NEXT;
            v_ok[1] := v_ok[1] AND r.o_state = 0;
            CONTINUE WHEN r.o_state <> 0 OR p_lens[r.o_slot] = 0;
            w_first[r.o_slot] := r.o_end; w_at[r.o_slot] := r.o_at;
            w_partition := w_partition || p_partitions[r.o_slot];
            w_queue := w_queue || r.o_queue_id; w_wait := w_wait || r.o_wait;
            w_strict := w_strict || r.o_strict;
        END LOOP;
        IF NOT v_ok[1] THEN
            RETURN;
        END IF;
        PERFORM FROM @schema@.cursors c WHERE c.partition_id = ANY (w_partition)
        ORDER BY c.partition_id, c.group_id FOR NO KEY UPDATE;
        slot := NULL; state := NULL; first_offset := NULL; created_at := NULL; known_txns := NULL;
        known_ids := NULL; known_offsets := NULL; delta_firsts := NULL; delta_ats := NULL;
        delta_txns := NULL;
    END IF;
    v_own := ARRAY(SELECT (x->>'lane')::bigint FROM jsonb_array_elements(p_commands)
        WITH ORDINALITY AS x (x, ord) ORDER BY ord);
    -- A first check, so that a stale commit creates no lane.
    v_ok := ARRAY(
        SELECT l.lane_id IS NOT NULL
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, key uuid)) WITH ORDINALITY
            AS x (lane, key, ord)
        LEFT JOIN @schema@.flow_lanes l ON l.lane_id = x.lane AND l.lease_token = x.key
        ORDER BY x.ord);
    v_lanes := @schema@.flow_lock(v_own, ARRAY(
        SELECT x.instance FROM jsonb_to_recordset(p_messages) AS x (c integer, instance text)
        WHERE v_ok[x.c]));
    v_now := @schema@.clock();
    SELECT x.* INTO k FROM @schema@.flow_commit_check(p_commands, v_lanes, v_now) AS x;
    v_ok := ARRAY(SELECT x.code = 0 AND x.held FROM unnest(k.o_codes, v_ok) AS x (code, held));
    v_notified := array_fill(false, ARRAY[cardinality(v_own)]);
    IF true = ANY (v_ok) THEN
        v_phases := @schema@.flow_commit_write(p_commands, p_blobs, k.o_codes,
            ARRAY(SELECT (v_lanes[x]).instance FROM unnest(k.o_lanes) AS x),
            ARRAY(SELECT (v_lanes[x]).phase FROM unnest(k.o_lanes) AS x), v_now);
        IF EXISTS (SELECT FROM jsonb_to_recordset(p_commands) AS x (kv boolean, ending text)
            WHERE x.kv OR x.ending IS NOT NULL)
        THEN
            PERFORM @schema@.flow_commit_kv(p_commands, p_kv, p_blobs, k.o_codes, v_now);
        END IF;
    END IF;
    PERFORM @schema@.flow_commit_cancel_work(p_commands, p_unwork, v_ok);
    SELECT x.* INTO w FROM @schema@.flow_work_add(p_work_commands, p_work_executions,
        p_work_activities, p_work_routes, p_work_sessions, p_work_afters, p_work_ats, p_work_bodies,
        p_work_requests, v_own, v_ok, v_now) AS x;
    SELECT x.* INTO p FROM @schema@.flow_put(v_lanes, p_messages, p_blobs, v_ok, v_now) AS x;
    v_before := v_lanes;
    v_lanes := p.o_lanes;
    PERFORM @schema@.flow_commit_clean(p_commands, p_unsend, v_lanes, k.o_lanes, v_ok);
    -- The turns' own lanes: their leases end, and what is left in them is due.
    FOR r IN
        SELECT c.*, k.o_lanes[c.ord] AS at
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, name text,
                capability integer, statuses integer, kv boolean, ending text))
            WITH ORDINALITY AS c (lane, name, capability, statuses, kv, ending, ord)
        WHERE v_ok[c.ord]
    LOOP
        v_notified[r.ord] := r.statuses > 0 OR r.kv
            OR coalesce(r.ending <> 'continued_as_new', false)
            OR (v_lanes[r.at].phase = 0 AND v_phases[r.ord] IS NOT NULL);
        v_lanes[r.at].phase := coalesce(v_phases[r.ord], v_lanes[r.at].phase);
        v_lanes[r.at].capability_id := coalesce(r.capability, v_lanes[r.at].capability_id);
        IF r.ending = 'continued_as_new' THEN
            v_lanes[r.at].capability_id := coalesce((
                SELECT m.starts FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
                    c integer, instance text, starts integer)) WITH ORDINALITY
                    AS m (c, instance, starts, ord)
                WHERE m.c = r.ord AND m.instance = v_lanes[r.at].instance AND m.starts IS NOT NULL
                ORDER BY m.ord LIMIT 1), v_lanes[r.at].capability_id);
        END IF;
        v_lanes[r.at].lease_token := NULL; v_lanes[r.at].lease_until := NULL;
        v_lanes[r.at].lease_at := NULL; v_lanes[r.at].lease_seq := NULL;
        v_lanes[r.at].due_at := CASE WHEN v_lanes[r.at].capability_id IS NOT NULL
            AND v_lanes[r.at].suspended IS NULL THEN (
                SELECT m.visible_at FROM @schema@.flow_messages m
                WHERE m.lane_id = r.lane ORDER BY m.visible_at LIMIT 1) END;
        p.o_firsts[r.at] := 0; p.o_commands[r.at] := r.ord;
    END LOOP;
    SELECT x.* INTO v_fresh, v_by
    FROM @schema@.flow_changed_lanes(v_lanes, p.o_firsts, p.o_commands) AS x;
    SELECT x.* INTO b
    FROM @schema@.flow_lease_on_insert(v_lanes, v_fresh, v_by, p_turn_requests, v_ok, v_now) AS x;
    v_lanes := b.o_lanes;
    kind := 6;
    FOR i IN 1 .. cardinality(v_own) LOOP
        IF v_notified[i] THEN
            command := i; what := v_lanes[k.o_lanes[i]].instance;
            watched := v_lanes[k.o_lanes[i]].watched;
            v_lanes[k.o_lanes[i]].watched := false;
            RETURN NEXT;
        END IF;
    END LOOP;
    PERFORM @schema@.flow_save(v_lanes);
    IF w_partition <> '{}' AND v_ok[1] THEN
        PERFORM @schema@.push_store(p_partitions, p_lens, w_first, w_at, p_chunk_slots,
            p_chunk_starts, p_chunk_lens, p_chunk_items, p_chunk_txns, p_chunk_bodies, p_ids,
            p_ends, p_traces, p_producers);
        PERFORM @schema@.cursor_wake(w_partition, w_queue, w_wait, w_strict);
    END IF;
    kind := 0; command := NULL; watched := NULL; what := NULL;
    codes := k.o_codes; lasts := k.o_lasts; outcomes := p.o_outcomes;
    RETURN NEXT;
    codes := NULL; lasts := NULL; outcomes := NULL;
    kind := 2;
    FOR r IN SELECT * FROM @schema@.flow_hints(v_before, v_lanes, v_fresh, v_by, v_now) LOOP
        command := r.o_command; due_us := r.o_due_us; what := r.o_what;
        RETURN NEXT;
    END LOOP;
    kind := 5;
    FOR i IN 1 .. coalesce(cardinality(w.o_hint_commands), 0) LOOP
        command := w.o_hint_commands[i]; due_us := w.o_hint_us[i]; what := w.o_hint_tags[i];
        activity := w.o_hint_names[i];
        RETURN NEXT;
    END LOOP;
    command := NULL; due_us := NULL; what := NULL; now_at := v_now;
    IF b.o_ids <> '{}' THEN
        kind := 1; ids := b.o_ids; commands := b.o_commands; requests := b.o_requests;
        RETURN NEXT;
    END IF;
    IF w.o_ids <> '{}' THEN
        kind := 4; ids := w.o_ids; commands := w.o_commands; requests := w.o_requests;
        RETURN NEXT;
    END IF;
END
$$;
