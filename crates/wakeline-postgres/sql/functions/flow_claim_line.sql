-- Leases turns to the dispatchers of one line, taking lanes in the order in which they became due,
-- with SKIP LOCKED, so that concurrent claims skip each other's lanes instead of waiting for them.
-- o_code, o_due_us: see flow_claim_turns. Lock order: lanes, without waiting, except for the first
-- one if p_patient.

CREATE OR REPLACE FUNCTION @schema@.flow_claim_line(
    p_caps integer[], p_requests jsonb, p_patient boolean, p_further boolean,
    OUT o_ids bigint[], OUT o_requests integer[], OUT o_code smallint, OUT o_due_us bigint,
    OUT o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    p record;
    n integer;
    v_keys uuid[];
    v_leases bigint[];
    v_again boolean;
    v_open integer[];
    v_wanted integer;
    v_passed bigint[] := '{}';
    v_due timestamptz;
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
    SELECT coalesce(array_agg(x.key), '{}'), array_agg(x.lease), bool_or(x.again)
    INTO v_keys, v_leases, v_again
    FROM jsonb_to_recordset(p_requests) AS x (key uuid, lease bigint, again boolean);
    v_open := ARRAY(SELECT generate_series(1, cardinality(v_keys)));
    IF v_again THEN
        -- If this is the second attempt of the claim: the turns that the first one leased.
        FOR c IN
            SELECT x.ord::integer, f.lane_id
            FROM ROWS FROM (jsonb_to_recordset(p_requests) AS (key uuid, again boolean))
                WITH ORDINALITY AS x (key, again, ord)
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
    END IF;
    WHILE v_open <> '{}' LOOP
        v_wanted := cardinality(v_open);
        SELECT coalesce(array_agg(x.candidate), '{}') AS candidates,
            coalesce(array_agg(x.lane_id) FILTER (WHERE x.lane_id IS NOT NULL), '{}') AS lanes,
            array_agg(x.lane_id) FILTER (WHERE x.lease_token IS NOT NULL) AS expired
        INTO c
        FROM (
            SELECT m.lane_id AS candidate, k.* FROM (
                SELECT f.lane_id, f.due_at FROM unnest(p_caps) AS x (capability_id)
                CROSS JOIN LATERAL (
                    SELECT f.lane_id, f.due_at FROM @schema@.flow_lanes f
                    WHERE f.capability_id = x.capability_id AND f.due_at <= o_now
                        AND (v_passed = '{}' OR f.lane_id <> ALL (v_passed))
                    ORDER BY f.due_at, f.lane_id LIMIT v_wanted) f
                ORDER BY f.due_at, f.lane_id LIMIT v_wanted
            ) m LEFT JOIN LATERAL (
                SELECT k.lane_id, k.lease_token FROM @schema@.flow_lanes k
                WHERE k.lane_id = m.lane_id AND k.due_at <= o_now AND k.capability_id = ANY (p_caps)
                FOR NO KEY UPDATE SKIP LOCKED
            ) k ON true
        ) x;
        IF cardinality(c.lanes) < cardinality(c.candidates) THEN
            o_code := 2;
        END IF;
        IF c.expired IS NOT NULL THEN
            -- Their attempts count.
            UPDATE @schema@.flow_messages m SET attempts = m.attempts + 1
            FROM @schema@.flow_lanes l
            WHERE l.lane_id = ANY (c.expired) AND m.lane_id = l.lane_id AND m.seq <= l.lease_seq
                AND m.visible_at <= l.lease_at;
        END IF;
        IF c.lanes <> '{}' THEN
            SELECT x.* INTO p FROM @schema@.flow_pick_all(c.lanes, o_now) AS x;
            IF p.o_empty IS NOT NULL THEN
                UPDATE @schema@.flow_lanes l SET lease_token = NULL, lease_until = NULL,
                    lease_at = NULL, lease_seq = NULL, due_at = (
                        SELECT m.visible_at FROM @schema@.flow_messages m
                        WHERE m.lane_id = l.lane_id ORDER BY m.visible_at LIMIT 1)
                WHERE l.lane_id = ANY (p.o_empty);
            END IF;
            n := cardinality(p.o_lanes);
            UPDATE @schema@.flow_lanes l SET lease_token = v_keys[x.r],
                lease_until = o_now + v_leases[x.r] * interval '1 microsecond',
                due_at = o_now + v_leases[x.r] * interval '1 microsecond',
                lease_at = o_now, lease_seq = x.seq
            FROM unnest(p.o_lanes, p.o_seqs, v_open[:n]) AS x (lane, seq, r)
            WHERE l.lane_id = x.lane;
            o_ids := o_ids || p.o_lanes;
            o_requests := o_requests || ARRAY(SELECT x.r - 1 FROM unnest(v_open[:n]) AS x (r));
            v_open := v_open[n + 1:];
        END IF;
        -- There are no more candidates.
        EXIT WHEN cardinality(c.candidates) < v_wanted;
        v_passed := v_passed || c.candidates;
    END LOOP;
    IF v_open <> '{}' OR p_further THEN
        v_due := @schema@.flow_turns_due(p_caps);
        -- A lane that is due but was not taken although a request wanted it is locked by another
        -- claim, and may become available in a moment.
        o_due_us := CASE WHEN v_due <= o_now AND v_open <> '{}' THEN 2000
            WHEN v_due <= o_now THEN 0
            ELSE ceil(extract(epoch FROM v_due - o_now) * 1000000)::bigint END;
    END IF;
    IF v_open = '{}' THEN
        o_code := 0;
    END IF;
END
$$;
