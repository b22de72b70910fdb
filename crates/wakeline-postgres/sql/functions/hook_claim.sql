-- Leases deliveries to the requests of some lines. Returns rows of three kinds, in any order: 0: a
-- line's state (code 2: only locked deliveries are due) and the time to its next delivery if a
-- request was not filled or p_further is set; 1: the endpoint of a leased delivery; 2: a leased
-- delivery. p_pulls: by line, the endpoint from which its owner fetches, or NULL for deliveries
-- that are sent. p_firsts, p_counts: the range of the line's requests. By request: p_fresh, the
-- number of attempts for first attempts only; p_leases, the length of leases, NULL for that of the
-- endpoint; p_starts, p_lengths: the range of its keys. p_again: by key, an earlier attempt may
-- have leased something under it. p_patient: wait (by lock_timeout) for the first due endpoint
-- instead of skipping it. p_limit_lines, p_limit_apps, p_limits: the maximum number of groups of an
-- application in a line. p_further: by line, return what is next for another waiter of the line,
-- however much was found: first attempts only (true) or all (false); NULL for not. Lock order: see
-- hook_claim_line.

CREATE OR REPLACE FUNCTION @schema@.hook_claim(
    p_pulls uuid[], p_firsts integer[], p_counts integer[], p_fresh integer[], p_leases bigint[],
    p_starts integer[], p_lengths integer[], p_keys uuid[], p_again boolean[], p_patient boolean,
    p_limit_lines integer[], p_limit_apps uuid[], p_limits integer[],
    p_further boolean[])
RETURNS TABLE (
    kind smallint, line integer, code smallint, due_us bigint,
    endpoint uuid, application uuid, url text, headers bytea, secrets bytea[],
    secret_ends timestamptz[], options text,
    ask integer, grp integer, delivery bigint, key uuid, attempt_no integer, scheduled_no integer,
    manual boolean, message uuid, event_type text, event_id text, channels text[],
    created_at timestamptz, payload bytea, now_at timestamptz, lease_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    s record;
    v_sent uuid[] := '{}';
    v_apps uuid[] := '{}';
    v_limits integer[] := '{}';
BEGIN
    FOR n IN 1..cardinality(p_pulls) LOOP
        IF p_limits <> '{}' THEN
            SELECT coalesce(array_agg(x.app), '{}'), coalesce(array_agg(x.most), '{}')
            INTO v_apps, v_limits
            FROM unnest(p_limit_lines, p_limit_apps, p_limits) AS x (line, app, most)
            WHERE x.line = n;
        END IF;
        s := @schema@.hook_claim_line(p_pulls[n], p_firsts[n], p_counts[n],
            p_fresh, p_leases, p_starts, p_lengths, p_keys, p_again, p_patient,
            v_apps, v_limits, p_further[n]);
        kind := 0; line := n; code := s.o_code; due_us := s.o_due_us; now_at := s.o_now;
        RETURN NEXT;
        CONTINUE WHEN s.o_deliveries = '{}';
        RETURN QUERY
        SELECT 1::smallint, n, NULL::smallint, NULL::bigint,
            e.endpoint_id, e.application_id, e.url, e.headers, e.secrets, e.secret_ends, e.options,
            NULL::integer, NULL::integer, NULL::bigint, NULL::uuid, NULL::integer, NULL::integer,
            NULL::boolean, NULL::uuid, NULL::text, NULL::text, NULL::text[],
            NULL::timestamptz, NULL::bytea, s.o_now, NULL::bigint
        FROM (SELECT DISTINCT x.id FROM unnest(s.o_endpoints) AS x (id)
            WHERE x.id <> ALL (v_sent)) x
        CROSS JOIN LATERAL (
            SELECT e.* FROM @schema@.hook_endpoints e WHERE e.endpoint_id = x.id OFFSET 0) e;
        v_sent := v_sent || s.o_endpoints;
        RETURN QUERY
        SELECT 2::smallint, n, NULL::smallint, NULL::bigint,
            d.endpoint_id, NULL::uuid, NULL::text, NULL::bytea, NULL::bytea[],
            NULL::timestamptz[], NULL::text,
            x.ask, x.grp, d.delivery_id, x.key, d.attempts + 1,
            d.scheduled + CASE WHEN d.manual THEN 0 ELSE 1 END, d.manual,
            d.message_id, m.event_type, m.event_id, m.channels, m.created_at, m.payload,
            s.o_now, (extract(epoch FROM d.lease_until - s.o_now) * 1000000)::bigint
        FROM unnest(s.o_deliveries, s.o_keys, s.o_asks, s.o_groups)
            AS x (delivery_id, key, ask, grp)
        CROSS JOIN LATERAL (
            SELECT d.* FROM @schema@.hook_deliveries d
            WHERE d.delivery_id = x.delivery_id OFFSET 0) d
        CROSS JOIN LATERAL (
            SELECT e.application_id FROM @schema@.hook_endpoints e
            WHERE e.endpoint_id = d.endpoint_id OFFSET 0) e
        -- A missing message is reported, not skipped: its delivery is already leased.
        LEFT JOIN LATERAL (
            SELECT m.* FROM @schema@.hook_messages m
            WHERE m.application_id = e.application_id AND m.message_id = d.message_id OFFSET 0) m
            ON true;
    END LOOP;
END
$$;
