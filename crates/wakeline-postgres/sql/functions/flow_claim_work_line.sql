-- Leases work to the workers of one line, strictly in order of insertion. First it makes due work
-- available: delayed work, and work whose lease has expired. It uses SKIP LOCKED, so that
-- concurrent claims skip each other's work instead of waiting for it. o_code, o_due_us: see
-- flow_claim_work. Lock order: sessions and work, without waiting, except for the first work if
-- p_patient.

CREATE OR REPLACE FUNCTION @schema@.flow_claim_work_line(
    p_routes bigint[], p_owner text, p_session_us bigint, p_requests jsonb, p_patient boolean,
    p_further boolean,
    OUT o_ids bigint[], OUT o_requests integer[], OUT o_code smallint, OUT o_due_us bigint,
    OUT o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    n integer;
    v_keys uuid[];
    v_leases bigint[];
    v_again boolean;
    v_open integer[];
    v_wanted integer;
    v_taken bigint[];
    v_after bigint := -1;
    v_due timestamptz;
BEGIN
    o_ids := '{}'; o_requests := '{}'; o_code := 0; o_now := @schema@.clock();
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM FROM @schema@.flow_work w WHERE w.work_id = (
            SELECT x.o_work FROM @schema@.flow_work_ready(p_routes, p_owner, -1, 1, o_now) x)
        FOR NO KEY UPDATE;
        o_now := @schema@.clock();
    END IF;
    SELECT coalesce(array_agg(x.key), '{}'), array_agg(x.lease), bool_or(x.again)
    INTO v_keys, v_leases, v_again
    FROM jsonb_to_recordset(p_requests) AS x (key uuid, lease bigint, again boolean);
    v_open := ARRAY(SELECT generate_series(1, cardinality(v_keys)));
    IF v_again THEN
        -- If this is the second attempt of the claim: the work that the first one leased.
        FOR c IN
            SELECT x.ord::integer, f.work_id
            FROM ROWS FROM (jsonb_to_recordset(p_requests) AS (key uuid, again boolean))
                WITH ORDINALITY AS x (key, again, ord)
            CROSS JOIN LATERAL (
                SELECT f.work_id FROM @schema@.flow_work f
                WHERE f.route = ANY (p_routes) AND f.state = 1 AND f.due_at > o_now
                    AND f.lease_token = x.key
                LIMIT 1) f
            WHERE x.again
        LOOP
            o_ids := o_ids || c.work_id; o_requests := o_requests || c.ord - 1;
            v_open := array_remove(v_open, c.ord);
        END LOOP;
    END IF;
    IF v_open <> '{}' AND EXISTS (
        SELECT FROM unnest(p_routes) AS t (route)
        CROSS JOIN LATERAL (
            (SELECT FROM @schema@.flow_work k
            WHERE k.route = t.route AND k.state = 1 AND k.session IS NULL AND k.due_at <= o_now
            LIMIT 1)
            UNION ALL
            (SELECT FROM @schema@.flow_work k
            WHERE p_owner IS NOT NULL AND k.route = t.route AND k.state = 1
                AND k.session IS NOT NULL AND k.due_at <= o_now
            LIMIT 1)) k)
    THEN
        PERFORM @schema@.flow_work_make_available(p_routes, p_owner, o_now);
    END IF;
    WHILE v_open <> '{}' LOOP
        v_wanted := cardinality(v_open);
        SELECT coalesce(array_agg(x.candidate), '{}') AS candidates,
            coalesce(array_agg(x.work_id) FILTER (WHERE x.work_id IS NOT NULL), '{}') AS works,
            array_agg(x.work_id) FILTER (WHERE x.session IS NOT NULL) AS kept,
            array_agg(x.session) FILTER (WHERE x.session IS NOT NULL) AS sessions
        INTO c
        FROM (
            SELECT x.o_work AS candidate, k.* FROM @schema@.flow_work_ready(
                p_routes, p_owner, v_after, v_wanted, o_now) x
            LEFT JOIN LATERAL (
                SELECT k.work_id, k.session FROM @schema@.flow_work k
                WHERE k.work_id = x.o_work AND k.state = 0
                FOR NO KEY UPDATE SKIP LOCKED
            ) k ON true
            ORDER BY x.o_work
        ) x;
        v_taken := c.works;
        FOR i IN 1 .. coalesce(cardinality(c.kept), 0) LOOP
            IF NOT @schema@.flow_session_take(c.sessions[i], p_owner, p_session_us, o_now) THEN
                v_taken := array_remove(v_taken, c.kept[i]);
            END IF;
        END LOOP;
        n := cardinality(v_taken);
        IF n < cardinality(c.candidates) THEN
            o_code := 2;
        END IF;
        IF n > 0 THEN
            UPDATE @schema@.flow_work w SET state = 1, lease_token = v_keys[x.r],
                due_at = o_now + v_leases[x.r] * interval '1 microsecond',
                attempts = w.attempts + 1
            FROM unnest(v_taken, v_open[:n]) AS x (work, r)
            WHERE w.work_id = x.work;
            o_ids := o_ids || v_taken;
            o_requests := o_requests || ARRAY(SELECT x.r - 1 FROM unnest(v_open[:n]) AS x (r));
            v_open := v_open[n + 1:];
        END IF;
        -- There is no more work.
        EXIT WHEN cardinality(c.candidates) < v_wanted;
        v_after := c.candidates[v_wanted];
    END LOOP;
    IF v_open = '{}' THEN
        o_code := 0;
    END IF;
    IF o_code = 2 THEN
        -- Work that other claims have locked may become available in a moment.
        o_due_us := 2000;
    ELSIF v_open = '{}' AND p_further AND EXISTS (
        SELECT FROM @schema@.flow_work_ready(p_routes, p_owner, -1, 1, o_now))
    THEN
        o_due_us := 0;
    ELSIF v_open <> '{}' OR p_further THEN
        v_due := @schema@.flow_work_later(p_routes, p_owner, o_now);
        o_due_us := CASE WHEN v_due <= o_now THEN 0
            ELSE ceil(extract(epoch FROM v_due - o_now) * 1000000)::bigint END;
    END IF;
END
$$;
