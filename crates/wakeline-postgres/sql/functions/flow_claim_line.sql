-- Leases turns to the dispatchers of one line, lanes in the order in which they became due. SKIP
-- LOCKED: rivals pass over what is being claimed instead of queueing behind it. o_code, o_due_us:
-- see flow_claim_turns.
-- Called by: flow_claim_turns. Lock order: lanes, only tried, except the first one if p_patient.

CREATE OR REPLACE FUNCTION @schema@.flow_claim_line(
    p_caps integer[], p_requests jsonb, p_patient boolean,
    OUT o_ids bigint[], OUT o_requests integer[], OUT o_code smallint, OUT o_due_us bigint,
    OUT o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_keys uuid[];
    v_leases bigint[];
    v_open integer[];
    v_passed bigint[] := '{}';
    v_seen integer;
    v_seq bigint;
    v_due timestamptz;
    g_keys uuid[] := '{}';
    g_until timestamptz[] := '{}';
    g_seqs bigint[] := '{}';
    g_ids bigint[] := '{}';
BEGIN
    o_ids := '{}'; o_requests := '{}'; o_code := 0; o_now := @schema@.clock();
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM FROM @schema@.flow_lanes l WHERE l.lane_id = (
            SELECT f.lane_id FROM unnest(p_caps) AS x (capability_id)
            CROSS JOIN LATERAL (
                SELECT f.lane_id, f.due_at FROM @schema@.flow_lanes f
                WHERE f.capability_id = x.capability_id AND f.due_at <= o_now
                ORDER BY f.due_at, f.lane_id LIMIT 1) f
            ORDER BY f.due_at, f.lane_id LIMIT 1)
        FOR NO KEY UPDATE;
        o_now := @schema@.clock();
    END IF;
    SELECT array_agg(x.key ORDER BY x.ord), array_agg(x.lease ORDER BY x.ord),
        array_agg(x.ord::integer ORDER BY x.ord)
    INTO v_keys, v_leases, v_open
    FROM ROWS FROM (jsonb_to_recordset(p_requests) AS (key uuid, lease bigint, again boolean))
        WITH ORDINALITY AS x (key, lease, again, ord);
    -- What the claim's first try leased, if this is its second.
    FOR c IN
        SELECT x.ord::integer, f.lane_id
        FROM ROWS FROM (jsonb_to_recordset(p_requests) AS (key uuid, lease bigint, again boolean))
            WITH ORDINALITY AS x (key, lease, again, ord)
        CROSS JOIN LATERAL (
            SELECT f.lane_id FROM unnest(p_caps) AS y (capability_id)
            CROSS JOIN LATERAL (
                SELECT f.lane_id FROM @schema@.flow_lanes f
                WHERE f.capability_id = y.capability_id AND f.due_at > o_now
                    AND f.lease_token = x.key AND f.lease_until > o_now
                ORDER BY f.due_at LIMIT 1) f LIMIT 1) f
        WHERE x.again
    LOOP
        o_ids := o_ids || c.lane_id; o_requests := o_requests || c.ord - 1;
        v_open := array_remove(v_open, c.ord);
    END LOOP;
    WHILE v_open <> '{}' LOOP
        v_seen := 0;
        FOR c IN
            SELECT m.lane_id AS candidate, k.* FROM (
                SELECT f.lane_id, f.due_at FROM unnest(p_caps) AS x (capability_id)
                CROSS JOIN LATERAL (
                    SELECT f.lane_id, f.due_at FROM @schema@.flow_lanes f
                    WHERE f.capability_id = x.capability_id AND f.due_at <= o_now
                        AND (v_passed = '{}' OR f.lane_id <> ALL (v_passed))
                    ORDER BY f.due_at, f.lane_id LIMIT cardinality(v_open)) f
                ORDER BY f.due_at, f.lane_id LIMIT cardinality(v_open)
            ) m LEFT JOIN LATERAL (
                SELECT k.* FROM @schema@.flow_lanes k
                WHERE k.lane_id = m.lane_id AND k.due_at <= o_now AND k.capability_id = ANY (p_caps)
                FOR NO KEY UPDATE SKIP LOCKED
            ) k ON true
        LOOP
            v_seen := v_seen + 1;
            v_passed := v_passed || c.candidate;
            IF c.lane_id IS NULL THEN
                o_code := 2;
                CONTINUE;
            END IF;
            IF c.lease_token IS NOT NULL THEN
                -- Expired: its attempt counts.
                UPDATE @schema@.flow_messages m SET attempts = m.attempts + 1
                WHERE m.lane_id = c.lane_id AND m.seq <= c.lease_seq AND m.visible_at <= c.lease_at;
            END IF;
            v_seq := @schema@.flow_pick(c.lane_id, o_now);
            IF v_seq IS NULL THEN
                UPDATE @schema@.flow_lanes l SET lease_token = NULL, lease_until = NULL,
                    lease_at = NULL, lease_seq = NULL, due_at = (
                        SELECT m.visible_at FROM @schema@.flow_messages m
                        WHERE m.lane_id = c.lane_id ORDER BY m.visible_at LIMIT 1)
                WHERE l.lane_id = c.lane_id;
                CONTINUE;
            END IF;
            o_ids := o_ids || c.lane_id; o_requests := o_requests || v_open[1] - 1;
            g_ids := g_ids || c.lane_id; g_keys := g_keys || v_keys[v_open[1]];
            g_until := g_until || o_now + v_leases[v_open[1]] * interval '1 microsecond';
            g_seqs := g_seqs || v_seq;
            v_open := v_open[2:];
        END LOOP;
        EXIT WHEN v_seen = 0;
    END LOOP;
    IF g_ids <> '{}' THEN
        UPDATE @schema@.flow_lanes l SET lease_token = x.key, lease_until = x.until,
            due_at = x.until, lease_at = o_now, lease_seq = x.seq
        FROM unnest(g_ids, g_keys, g_until, g_seqs) AS x (lane, key, until, seq)
        WHERE l.lane_id = x.lane;
    END IF;
    IF v_open <> '{}' THEN
        v_due := @schema@.flow_turns_due(p_caps);
        -- What is due and was not taken is in a rival's hands, and may come back in a moment.
        o_due_us := CASE WHEN v_due <= o_now THEN 2000
            ELSE ceil(extract(epoch FROM v_due - o_now) * 1000000)::bigint END;
    ELSE
        o_code := 0;
    END IF;
END
$$;
