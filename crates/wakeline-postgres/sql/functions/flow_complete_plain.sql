-- Removes leased work and stores the messages to its instances, for several completions; faster
-- than flow_complete, and usable if each message goes to the work's own instance, immediately, and
-- no work belongs to a session. Arrays by completion; p_instances, p_bodies: NULL if there is no
-- message. Rows as of flow_complete; or one row of kind 9 if the general function is needed, and
-- then nothing was written. Lock order: lanes, work by id.

CREATE OR REPLACE FUNCTION @schema@.flow_complete_plain(
    p_lanes bigint[], p_works bigint[], p_keys uuid[], p_instances text[], p_bodies bytea[],
    p_requests jsonb)
RETURNS TABLE (
    kind smallint, codes smallint[], command integer, due_us bigint, what text,
    ids bigint[], commands integer[], requests integer[], now_at timestamptz)
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_done bigint[];
    v_ok boolean[];
    f record;
    g record;
    h record;
BEGIN
    IF EXISTS (
        SELECT FROM unnest(p_works, p_instances) AS x (work, instance)
        JOIN @schema@.flow_work w ON w.work_id = x.work
        LEFT JOIN @schema@.flow_lanes l ON l.lane_id = w.lane_id
        WHERE w.session IS NOT NULL OR l.instance <> x.instance OR l.lane_id IS NULL)
    THEN
        kind := 9;
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (p_lanes)
    ORDER BY l.lane_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    WITH done AS (
        DELETE FROM @schema@.flow_work w
        USING (
            SELECT x.* FROM unnest(p_lanes, p_works, p_keys) WITH ORDINALITY
                AS x (lane, work, key, ord)
            ORDER BY x.work
        ) x
        WHERE w.work_id = x.work AND w.lane_id = x.lane AND w.lease_token = x.key
            AND w.state = 1 AND w.due_at > v_now
        RETURNING w.work_id, x.ord
    ), gone AS (
        DELETE FROM @schema@.flow_work_bodies b USING done WHERE b.work_id = done.work_id
    )
    SELECT coalesce(array_agg(done.ord), '{}') INTO v_done FROM done;
    INSERT INTO @schema@.flow_messages (lane_id, seq, visible_at, starts, payload)
    SELECT l.lane_id, l.next_seq - 1 + row_number() OVER (PARTITION BY l.lane_id ORDER BY x.ord),
        v_now, false, x.body
    FROM unnest(p_lanes, p_instances, p_bodies) WITH ORDINALITY AS x (lane, instance, body, ord)
    JOIN @schema@.flow_lanes l ON l.lane_id = x.lane
    WHERE x.ord = ANY (v_done) AND x.instance IS NOT NULL AND l.phase <> 2;
    -- The lanes that got something, in order, and their states.
    SELECT coalesce(array_agg(x.lane_id), '{}') AS lanes, array_agg(x.len) AS lens,
        array_agg(x.command) AS commands, array_agg(x.capability_id) AS capabilities,
        array_agg(CASE WHEN x.free THEN least(x.due_at, v_now) ELSE x.due_at END) AS due,
        array_agg(x.free) AS free
    INTO f
    FROM (
        SELECT l.lane_id, l.capability_id, l.due_at, count(*) AS len,
            min(x.ord)::integer AS command,
            l.capability_id IS NOT NULL AND l.suspended IS NULL AND l.lease_token IS NULL AS free
        FROM unnest(p_lanes, p_instances) WITH ORDINALITY AS x (lane, instance, ord)
        JOIN @schema@.flow_lanes l ON l.lane_id = x.lane
        WHERE x.ord = ANY (v_done) AND x.instance IS NOT NULL AND l.phase <> 2
        GROUP BY l.lane_id
        ORDER BY min(x.ord)
    ) x;
    SELECT array_agg(x.ord = ANY (v_done)) INTO v_ok
    FROM generate_series(1, cardinality(p_works)) AS x (ord);
    SELECT x.* INTO g FROM @schema@.flow_claim_result(f.lanes, f.capabilities, f.due, f.free, f.commands,
        p_requests, v_ok, v_now) AS x;
    UPDATE @schema@.flow_lanes l SET next_seq = l.next_seq + x.len,
        due_at = coalesce(x.until, x.due_at), lease_token = coalesce(x.key, l.lease_token),
        lease_until = coalesce(x.until, l.lease_until),
        lease_at = CASE WHEN x.key IS NULL THEN l.lease_at ELSE v_now END,
        lease_seq = coalesce(x.seq, l.lease_seq)
    FROM unnest(f.lanes, f.lens, f.due, g.o_keys, g.o_untils, g.o_seqs)
        AS x (lane, len, due_at, key, until, seq)
    WHERE l.lane_id = x.lane;
    kind := 0;
    SELECT array_agg(CASE WHEN x.ok THEN 0 ELSE 1 END::smallint) || coalesce(array_agg(CASE
            WHEN NOT x.ok THEN NULL WHEN x.lane = ANY (f.lanes) THEN 0 ELSE 2 END::smallint)
        FILTER (WHERE x.instance IS NOT NULL), '{}')
    INTO codes
    FROM unnest(v_ok, p_lanes, p_instances) AS x (ok, lane, instance);
    RETURN NEXT;
    codes := NULL;
    IF false = ANY (g.o_given) THEN
        kind := 2;
        FOR h IN
            SELECT x.command, n.name,
                greatest(ceil(extract(epoch FROM x.due_at - v_now) * 1000000), 0)::bigint AS us
            FROM unnest(f.commands, f.capabilities, f.due, f.free, g.o_given)
                AS x (command, capability, due_at, free, given)
            JOIN @schema@.flow_capabilities n ON n.capability_id = x.capability
            WHERE x.free AND NOT x.given
        LOOP
            command := h.command; due_us := h.us; what := h.name;
            RETURN NEXT;
        END LOOP;
    END IF;
    IF g.o_ids <> '{}' THEN
        kind := 1; command := NULL; due_us := NULL; what := NULL;
        ids := g.o_ids; commands := g.o_commands; requests := g.o_requests; now_at := v_now;
        RETURN NEXT;
    END IF;
END
$$;
