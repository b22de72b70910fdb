-- Leases work to the workers of one line, strictly in order of insertion. First it makes available
-- what has become due: delayed work, and that whose lease has expired.
-- SKIP LOCKED: rivals pass over what is being claimed instead of queueing behind it.
-- o_code, o_due_us: see flow_claim_work.
-- Called by: flow_claim_work. Lock order: sessions and work, only tried, except the first work if
-- p_patient.

CREATE OR REPLACE FUNCTION @schema@.flow_claim_work_line(
    p_tags integer[], p_owner text, p_session_us bigint, p_requests jsonb, p_patient boolean,
    OUT o_ids bigint[], OUT o_requests integer[], OUT o_code smallint, OUT o_due_us bigint,
    OUT o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_keys uuid[];
    v_leases bigint[];
    v_open integer[];
    v_after bigint := -1;
    v_seen integer;
    v_due timestamptz;
    g_ids bigint[] := '{}';
    g_keys uuid[] := '{}';
    g_until timestamptz[] := '{}';
BEGIN
    o_ids := '{}'; o_requests := '{}'; o_code := 0; o_now := @schema@.clock();
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM FROM @schema@.flow_work w WHERE w.work_id = (
            SELECT x.o_work FROM @schema@.flow_work_ready(p_tags, p_owner, -1, 1, o_now) x)
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
        SELECT x.ord::integer, f.work_id
        FROM ROWS FROM (jsonb_to_recordset(p_requests) AS (key uuid, lease bigint, again boolean))
            WITH ORDINALITY AS x (key, lease, again, ord)
        CROSS JOIN LATERAL (
            SELECT f.work_id FROM @schema@.flow_work f
            WHERE f.tag_id = ANY (p_tags) AND f.state = 1 AND f.due_at > o_now
                AND f.lease_token = x.key
            LIMIT 1) f
        WHERE x.again
    LOOP
        o_ids := o_ids || c.work_id; o_requests := o_requests || c.ord - 1;
        v_open := array_remove(v_open, c.ord);
    END LOOP;
    IF v_open <> '{}' THEN
        UPDATE @schema@.flow_work w SET state = 0, due_at = NULL
        FROM (
            SELECT k.work_id FROM unnest(p_tags) AS t (tag_id)
            CROSS JOIN LATERAL (
                SELECT k.work_id FROM @schema@.flow_work k
                WHERE k.tag_id = t.tag_id AND k.state = 1 AND k.session IS NULL
                    AND k.due_at <= o_now
                ORDER BY k.due_at LIMIT 1000
                FOR NO KEY UPDATE SKIP LOCKED) k
        ) d
        WHERE w.work_id = d.work_id;
        IF p_owner IS NOT NULL THEN
            UPDATE @schema@.flow_work w SET state = 0, due_at = NULL
            FROM (
                SELECT k.work_id FROM unnest(p_tags) AS t (tag_id)
                CROSS JOIN LATERAL (
                    SELECT k.work_id FROM @schema@.flow_work k
                    WHERE k.tag_id = t.tag_id AND k.state = 1 AND k.session IS NOT NULL
                        AND k.due_at <= o_now
                    ORDER BY k.due_at LIMIT 1000
                    FOR NO KEY UPDATE SKIP LOCKED) k
            ) d
            WHERE w.work_id = d.work_id;
        END IF;
    END IF;
    WHILE v_open <> '{}' LOOP
        v_seen := 0;
        FOR c IN
            SELECT x.o_work AS candidate, k.* FROM @schema@.flow_work_ready(
                p_tags, p_owner, v_after, cardinality(v_open), o_now) x
            LEFT JOIN LATERAL (
                SELECT k.work_id, k.session FROM @schema@.flow_work k
                WHERE k.work_id = x.o_work AND k.state = 0
                FOR NO KEY UPDATE SKIP LOCKED
            ) k ON true
            ORDER BY x.o_work
        LOOP
            v_seen := v_seen + 1;
            v_after := c.candidate;
            IF c.work_id IS NULL OR (c.session IS NOT NULL AND NOT @schema@.flow_session_take(
                c.session, p_owner, p_session_us, o_now))
            THEN
                o_code := 2;
                CONTINUE;
            END IF;
            o_ids := o_ids || c.work_id; o_requests := o_requests || v_open[1] - 1;
            g_ids := g_ids || c.work_id; g_keys := g_keys || v_keys[v_open[1]];
            g_until := g_until || o_now + v_leases[v_open[1]] * interval '1 microsecond';
            v_open := v_open[2:];
        END LOOP;
        EXIT WHEN v_seen = 0;
    END LOOP;
    IF g_ids <> '{}' THEN
        UPDATE @schema@.flow_work w SET state = 1, due_at = x.until, lease_token = x.key,
            attempts = w.attempts + 1
        FROM unnest(g_ids, g_keys, g_until) AS x (work, key, until)
        WHERE w.work_id = x.work;
    END IF;
    IF v_open = '{}' THEN
        o_code := 0;
    ELSIF o_code = 2 THEN
        -- What rivals have in hand may come back in a moment.
        o_due_us := 2000;
    ELSE
        v_due := @schema@.flow_work_later(p_tags, p_owner, o_now);
        o_due_us := CASE WHEN v_due <= o_now THEN 0
            ELSE ceil(extract(epoch FROM v_due - o_now) * 1000000)::bigint END;
    END IF;
END
$$;
