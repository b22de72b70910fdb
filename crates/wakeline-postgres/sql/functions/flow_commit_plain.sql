-- Commits turns that send no messages and only add to the existing rows; faster than flow_commit,
-- and usable if all turns of a call are plain. Arrays by command; p_versions: empty if pinned
-- without a version; p_statuses: how often the status changed, p_status: the last one. p_work_*:
-- see flow_work_add. Rows of kind 0, 2, 4, 5, 6: see flow_commit. Lock order: lanes, tries
-- sessions.

CREATE OR REPLACE FUNCTION @schema@.flow_commit_plain(
    p_lanes bigint[], p_keys uuid[], p_executions bigint[], p_names text[], p_parents text[],
    p_parent_events bigint[], p_capabilities integer[], p_versions text[], p_firsts bigint[],
    p_lasts bigint[], p_events bytea[], p_statuses integer[], p_status text[], p_endings text[],
    p_outputs bytea[], p_work_commands integer[], p_work_executions bigint[],
    p_work_activities bigint[], p_work_routes bigint[], p_work_sessions text[],
    p_work_afters bigint[], p_work_ats bigint[], p_work_bodies bytea[], p_work_requests jsonb)
RETURNS TABLE (
    kind smallint, codes smallint[], lasts bigint[], command integer, watched boolean,
    due_us bigint, what text, activity text, ids bigint[], commands integer[], requests integer[],
    now_at timestamptz)
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    r record;
    k record;
    w record;
    v_now timestamptz;
    v_ok boolean[];
    v_made bigint[];
    v_made_phases smallint[];
    v_kept bigint[];
    v_phases smallint[];
    v_due timestamptz[];
    v_notified boolean[];
BEGIN
    PERFORM FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (p_lanes)
    ORDER BY l.lane_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    -- As flow_commit_check.
    SELECT array_agg(x.code) AS codes, array_agg(x.code = 0) AS ok, array_agg(x.last) AS lasts,
        array_agg(x.instance) AS instances, array_agg(x.phase) AS phases,
        array_agg(x.capability_id) AS capabilities, array_agg(x.suspended) AS suspended,
        array_agg(x.watched) AS watched, array_agg(x.lease_at) AS ats,
        array_agg(x.lease_seq) AS seqs
    INTO k
    FROM (
        SELECT CASE
                WHEN l.lease_token IS DISTINCT FROM c.key OR l.lease_until <= v_now THEN 1
                WHEN l.phase = 0 AND c.name IS NULL
                    AND (c.first IS NOT NULL OR c.statuses > 0 OR c.ending IS NOT NULL) THEN 3
                WHEN c.first <> coalesce(e.last_event, 0) + 1 THEN 2
                ELSE 0 END::smallint AS code,
            coalesce(e.last_event, 0) AS last, l.instance, l.phase,
            coalesce(c.capability, l.capability_id) AS capability_id,
            l.suspended IS NOT NULL AS suspended, l.watched, l.lease_at, l.lease_seq
        FROM unnest(p_lanes, p_keys, p_executions, p_names, p_capabilities, p_firsts, p_statuses,
                p_endings)
            WITH ORDINALITY AS c (lane, key, execution, name, capability, first, statuses, ending,
                ord)
        LEFT JOIN @schema@.flow_lanes l ON l.lane_id = c.lane
        LEFT JOIN @schema@.flow_executions e
            ON e.lane_id = c.lane AND e.execution = c.execution
        ORDER BY c.ord
    ) x;
    v_ok := k.ok;
    -- As flow_commit_write.
    WITH made AS (
        INSERT INTO @schema@.flow_instances AS i (lane_id, instance, name, parent, parent_event,
            execution, state, status, status_version, kv_version, created_at, updated_at, ended_at)
        SELECT c.lane, c.instance, coalesce(c.name, ''), c.parent, c.parent_event, c.execution,
            coalesce(c.ending, 'running'), c.status, c.statuses, 0, v_now, v_now,
            CASE WHEN c.ending IS NOT NULL THEN v_now END
        FROM unnest(p_lanes, v_ok, k.instances, k.phases, p_executions, p_names, p_parents,
                p_parent_events, p_status, p_statuses, p_endings)
            AS c (lane, ok, instance, phase, execution, name, parent, parent_event, status,
                statuses, ending)
        WHERE c.ok AND (c.phase > 0 OR c.name IS NOT NULL)
        ON CONFLICT (lane_id) DO UPDATE SET
            execution = greatest(i.execution, excluded.execution),
            state = CASE WHEN excluded.ended_at IS NOT NULL OR excluded.execution > i.execution
                THEN excluded.state ELSE i.state END,
            status = CASE WHEN excluded.status_version > 0 THEN excluded.status ELSE i.status END,
            status_version = i.status_version + excluded.status_version,
            updated_at = v_now,
            ended_at = CASE WHEN excluded.execution > i.execution THEN excluded.ended_at
                ELSE coalesce(excluded.ended_at, i.ended_at) END
        RETURNING i.lane_id, i.ended_at, i.kv_version
    )
    SELECT coalesce(array_agg(m.lane_id), '{}'),
        array_agg(CASE WHEN m.ended_at IS NULL THEN 1 ELSE 2 END::smallint),
        array_agg(m.lane_id) FILTER (WHERE m.kv_version > 0 AND m.ended_at = v_now)
    INTO v_made, v_made_phases, v_kept FROM made m;
    INSERT INTO @schema@.flow_executions AS e (lane_id, execution, version, state, output,
        last_event, history_bytes, started_at, ended_at)
    SELECT c.lane, c.execution, c.version, coalesce(c.ending, 'running'), c.output,
        coalesce(c.last, 0), coalesce(octet_length(c.events), 0), v_now,
        CASE WHEN c.ending IS NOT NULL THEN v_now END
    FROM unnest(p_lanes, v_ok, p_executions, p_versions, p_endings, p_outputs, p_lasts, p_events)
        AS c (lane, ok, execution, version, ending, output, last, events)
    WHERE c.ok AND c.lane = ANY (v_made)
    ON CONFLICT (lane_id, execution) DO UPDATE SET
        version = coalesce(excluded.version, e.version),
        state = CASE WHEN excluded.ended_at IS NULL THEN e.state ELSE excluded.state END,
        output = CASE WHEN excluded.ended_at IS NULL THEN e.output ELSE excluded.output END,
        last_event = greatest(e.last_event, excluded.last_event),
        history_bytes = e.history_bytes + excluded.history_bytes,
        ended_at = coalesce(excluded.ended_at, e.ended_at);
    INSERT INTO @schema@.flow_history (lane_id, execution, first_event, last_event, events)
    SELECT c.lane, c.execution, c.first, c.last, c.events
    FROM unnest(p_lanes, v_ok, p_executions, p_firsts, p_lasts, p_events)
        AS c (lane, ok, execution, first, last, events)
    WHERE c.ok AND c.events IS NOT NULL;
    IF v_kept IS NOT NULL THEN
        PERFORM @schema@.flow_kv_merge(v_kept);
    END IF;
    SELECT x.* INTO w FROM @schema@.flow_work_add(p_work_commands, p_work_executions,
        p_work_activities, p_work_routes, p_work_sessions, p_work_afters, p_work_ats, p_work_bodies,
        p_work_requests, p_lanes, v_ok, v_now) AS x;
    -- As flow_commit_clean.
    DELETE FROM @schema@.flow_messages m
    USING unnest(p_lanes, v_ok, k.ats, k.seqs) AS c (lane, ok, at, seq)
    WHERE c.ok AND m.lane_id = c.lane AND m.seq <= c.seq AND m.visible_at <= c.at;
    SELECT array_agg(x.phase), array_agg(x.due_at), array_agg(x.notified)
    INTO v_phases, v_due, v_notified
    FROM (
        SELECT m.phase, CASE WHEN c.ok AND c.capability IS NOT NULL AND NOT c.suspended THEN (
                SELECT f.visible_at FROM @schema@.flow_messages f
                WHERE f.lane_id = c.lane ORDER BY f.visible_at LIMIT 1) END AS due_at,
            c.ok AND (c.statuses > 0 OR c.ending IS NOT NULL
                OR (c.phase = 0 AND m.phase IS NOT NULL)) AS notified
        FROM unnest(p_lanes, v_ok, k.phases, k.capabilities, k.suspended, p_statuses, p_endings)
            WITH ORDINALITY
            AS c (lane, ok, phase, capability, suspended, statuses, ending, ord)
        CROSS JOIN LATERAL (
            SELECT v_made_phases[array_position(v_made, c.lane)] AS phase) m
        ORDER BY c.ord
    ) x;
    -- The leases end, and what is left in the lanes is due.
    UPDATE @schema@.flow_lanes l SET phase = coalesce(c.phase, l.phase),
        capability_id = c.capability, due_at = c.due_at, lease_token = NULL, lease_until = NULL,
        lease_at = NULL, lease_seq = NULL, watched = l.watched AND NOT c.notified
    FROM unnest(p_lanes, v_ok, v_phases, k.capabilities, v_due, v_notified)
        AS c (lane, ok, phase, capability, due_at, notified)
    WHERE c.ok AND l.lane_id = c.lane;
    kind := 0; codes := k.codes; lasts := k.lasts;
    RETURN NEXT;
    codes := NULL; lasts := NULL;
    kind := 6;
    FOR i IN 1 .. cardinality(v_ok) LOOP
        IF v_notified[i] THEN
            command := i; what := k.instances[i]; watched := k.watched[i];
            RETURN NEXT;
        END IF;
    END LOOP;
    watched := NULL;
    kind := 2;
    IF array_remove(v_due, NULL) <> '{}' THEN
        FOR r IN
            SELECT c.ord::integer, n.name,
                greatest(ceil(extract(epoch FROM c.due_at - v_now) * 1000000), 0)::bigint AS us
            FROM unnest(v_due, k.capabilities) WITH ORDINALITY AS c (due_at, capability, ord)
            JOIN @schema@.flow_capabilities n ON n.capability_id = c.capability
            WHERE c.due_at IS NOT NULL
        LOOP
            command := r.ord; due_us := r.us; what := r.name;
            RETURN NEXT;
        END LOOP;
    END IF;
    kind := 5;
    FOR i IN 1 .. coalesce(cardinality(w.o_hint_commands), 0) LOOP
        command := w.o_hint_commands[i]; due_us := w.o_hint_us[i]; what := w.o_hint_tags[i];
        activity := w.o_hint_names[i];
        RETURN NEXT;
    END LOOP;
    IF w.o_ids <> '{}' THEN
        kind := 4; command := NULL; due_us := NULL; what := NULL; now_at := v_now;
        ids := w.o_ids; commands := w.o_commands; requests := w.o_requests;
        RETURN NEXT;
    END IF;
END
$$;
