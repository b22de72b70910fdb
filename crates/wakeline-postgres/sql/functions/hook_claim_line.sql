-- Leases deliveries to the requests of one line. p_first, p_count: the range of the line's
-- requests. p_apps: the applications that get at most p_limits groups each. Other parameters and
-- results: see hook_claim. First it collects endpoints that have something to deliver, as many as
-- there are attempts, in the order of service; then each gets its fair share; then it computes when
-- they are due again. Lock order: states, endpoints, deliveries: all without waiting, except for
-- the first state if p_patient.

CREATE OR REPLACE FUNCTION @schema@.hook_claim_line(
    p_pull uuid, p_first integer, p_count integer, p_fresh integer[], p_leases bigint[],
    p_starts integer[], p_lengths integer[], p_keys uuid[], p_again boolean[], p_patient boolean,
    p_apps uuid[], p_limits integer[], p_further boolean,
    OUT o_deliveries bigint[], OUT o_keys uuid[], OUT o_asks integer[], OUT o_groups integer[],
    OUT o_endpoints uuid[], OUT o_code smallint, OUT o_due_us bigint, OUT o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    -- By request: the attempts left, how many of them are for first attempts only, and the next
    -- key.
    a_left integer[] := p_lengths[p_first:p_first + p_count - 1];
    a_fresh integer[] := p_fresh[p_first:p_first + p_count - 1];
    a_next integer[] := p_starts[p_first:p_first + p_count - 1];
    v_left integer := 0;
    v_general integer := 0;
    v_held uuid[] := '{}';
    v_again boolean;
    v_apps uuid[];
    -- Some keys are used up: the attempts requested under them are not leased.
    v_short boolean := false;
    v_only_fresh boolean;
    v_ids uuid[];
    v_over uuid[];
    v_seen uuid[] := '{}';
    -- Limited applications: the groups that they may still get; those that get nothing more; and
    -- how many of the endpoints below exceed that.
    l_left integer[] := p_limits;
    v_full uuid[] := '{}';
    v_beyond integer := 0;
    v_limit integer;
    v_due timestamptz := '-infinity';
    v_served bigint := -1;
    v_last uuid := '00000000-0000-0000-0000-000000000000';
    -- Endpoints that have something to deliver.
    e_id uuid[] := '{}';
    e_app uuid[] := '{}';
    e_fifo integer[] := '{}';
    e_rate bigint[] := '{}';
    e_rate_at timestamptz[] := '{}';
    e_lease bigint[] := '{}';
    e_room integer[] := '{}';
    -- Only first attempts wait for it.
    e_plain boolean[] := '{}';
    e_since timestamptz[] := '{}';
    e_served bigint[] := '{}';
    -- Picked in advance: the number of the endpoint in the order of service, and the picked
    -- deliveries.
    g_turn integer[];
    g_id bigint[];
    v_share integer;
    v_at integer := 1;
    v_from integer;
    t_id bigint[];
    t_fresh boolean[];
    -- Endpoints whose next due time has to be computed.
    r_id uuid[] := '{}';
    r_more boolean[] := '{}';
    r_place bigint[] := '{}';
    r_rate timestamptz[] := '{}';
    v_order integer[];
    i integer;
    v_request integer;
    v_want integer;
    v_leased integer;
    v_more boolean;
    v_fresh boolean;
    v_group integer := 0;
    v_begin integer;
    v_until timestamptz[] := '{}';
BEGIN
    o_deliveries := '{}'; o_keys := '{}'; o_asks := '{}'; o_groups := '{}'; o_endpoints := '{}';
    o_code := 0;
    IF p_apps <> '{}' THEN
        v_full := ARRAY(
            SELECT x.app FROM unnest(p_apps, p_limits) AS x (app, most) WHERE x.most <= 0);
    END IF;
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = coalesce(p_pull, (
            SELECT f.endpoint_id FROM @schema@.hook_states f
            WHERE NOT f.pull AND f.due_at IS NOT NULL
                AND (v_full = '{}' OR (SELECT e.application_id FROM @schema@.hook_endpoints e
                    WHERE e.endpoint_id = f.endpoint_id) <> ALL (v_full))
            ORDER BY f.due_at, f.served, f.endpoint_id LIMIT 1))
        FOR NO KEY UPDATE;
    END IF;
    o_now := @schema@.clock();
    -- If this is the second attempt of the claim: the deliveries that the first one leased.
    v_again := true = ANY (p_again[p_starts[p_first]:p_starts[p_first + p_count - 1]
        + p_lengths[p_first + p_count - 1] - 1]);
    IF v_again THEN
        FOR c IN
            SELECT x.ask, d.delivery_id, d.endpoint_id, d.lease_key, d.fifo
            FROM generate_series(p_first, p_first + p_count - 1) AS x (ask)
            CROSS JOIN LATERAL generate_series(
                p_starts[x.ask], p_starts[x.ask] + p_lengths[x.ask] - 1) AS y (key)
            JOIN @schema@.hook_deliveries d ON d.lease_key = p_keys[y.key]
            WHERE p_again[y.key] AND d.state = 1 AND d.lease_until > o_now
            ORDER BY x.ask, d.endpoint_id, d.delivery_id
        LOOP
            IF v_group = 0 OR NOT c.fifo OR c.endpoint_id <> o_endpoints[cardinality(o_endpoints)]
                OR c.ask <> o_asks[cardinality(o_asks)]
            THEN
                v_group := v_group + 1;
            END IF;
            o_deliveries := o_deliveries || c.delivery_id; o_keys := o_keys || c.lease_key;
            o_asks := o_asks || c.ask; o_groups := o_groups || v_group;
            o_endpoints := o_endpoints || c.endpoint_id;
            v_held := v_held || c.lease_key;
            i := c.ask - p_first + 1;
            a_left[i] := a_left[i] - 1;
            a_fresh[i] := least(a_fresh[i], a_left[i]);
        END LOOP;
    END IF;
    FOR i IN 1..p_count LOOP
        a_fresh[i] := least(a_fresh[i], a_left[i]);
        v_left := v_left + a_left[i];
        v_general := v_general + a_left[i] - a_fresh[i];
    END LOOP;
    v_begin := cardinality(o_deliveries) + 1;
    v_only_fresh := v_general = 0;

    LOOP
        IF p_apps <> '{}' THEN
            SELECT coalesce(array_agg(x.app) FILTER (WHERE x.got >= x.most), '{}'),
                sum(greatest(x.got - x.most, 0))
            INTO v_full, v_beyond FROM (
                SELECT x.app, x.most, cardinality(array_positions(e_app, x.app)) AS got
                FROM unnest(p_apps, p_limits) AS x (app, most)) x;
        END IF;
        EXIT WHEN cardinality(e_id) >= v_left + v_beyond;
        IF p_pull IS NOT NULL THEN
            SELECT array_agg(k.endpoint_id) INTO v_ids FROM (
                SELECT s.endpoint_id FROM @schema@.hook_states s
                WHERE s.endpoint_id = p_pull AND s.pull AND s.due_at <= o_now
                    AND s.endpoint_id <> ALL (v_seen)
                FOR NO KEY UPDATE SKIP LOCKED) k;
        ELSIF v_general = 0 THEN
            SELECT array_agg(k.endpoint_id), max(k.due_at),
                (array_agg(k.served))[count(*)], (array_agg(k.endpoint_id))[count(*)]
            INTO v_ids, v_due, v_served, v_last FROM (
                SELECT s.endpoint_id, s.due_at, s.served FROM @schema@.hook_states s
                WHERE NOT s.pull AND s.fresh AND s.due_at <= o_now
                    AND (s.due_at, s.served, s.endpoint_id) > (v_due, v_served, v_last)
                    AND (v_full = '{}' OR (SELECT e.application_id FROM @schema@.hook_endpoints e
                        WHERE e.endpoint_id = s.endpoint_id) <> ALL (v_full))
                ORDER BY s.due_at, s.served, s.endpoint_id
                LIMIT v_left + v_beyond - cardinality(e_id)
                FOR NO KEY UPDATE SKIP LOCKED) k;
        ELSE
            SELECT array_agg(k.endpoint_id), max(k.due_at),
                (array_agg(k.served))[count(*)], (array_agg(k.endpoint_id))[count(*)]
            INTO v_ids, v_due, v_served, v_last FROM (
                SELECT s.endpoint_id, s.due_at, s.served FROM @schema@.hook_states s
                WHERE NOT s.pull AND s.due_at <= o_now
                    AND (s.due_at, s.served, s.endpoint_id) > (v_due, v_served, v_last)
                    AND (v_full = '{}' OR (SELECT e.application_id FROM @schema@.hook_endpoints e
                        WHERE e.endpoint_id = s.endpoint_id) <> ALL (v_full))
                ORDER BY s.due_at, s.served, s.endpoint_id
                LIMIT v_left + v_beyond - cardinality(e_id)
                FOR NO KEY UPDATE SKIP LOCKED) k;
        END IF;
        EXIT WHEN v_ids IS NULL;
        v_seen := v_seen || v_ids;
        -- OFFSET 0 and subqueries for single values: one index probe for each endpoint, even if the
        -- plan was made when the tables were small.
        SELECT array_agg(x.id) INTO v_over FROM unnest(v_ids) AS x (id) WHERE (
            SELECT true FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = x.id AND d.state = 1 AND d.lease_until <= o_now LIMIT 1);
        IF v_over IS NOT NULL THEN
            PERFORM @schema@.hook_reclaim(v_over, o_now);
        END IF;
        SELECT array_agg(k.id) FILTER (WHERE k.can) AS id,
            array_agg(k.application_id) FILTER (WHERE k.can) AS app,
            array_agg(k.fifo_batch) FILTER (WHERE k.can) AS fifo,
            array_agg(k.rate) FILTER (WHERE k.can) AS rate,
            array_agg(k.rate_at) FILTER (WHERE k.can) AS rate_at,
            array_agg(k.lease_us) FILTER (WHERE k.can) AS lease,
            array_agg(k.room) FILTER (WHERE k.can) AS room,
            array_agg(k.plain) FILTER (WHERE k.can) AS plain,
            array_agg(greatest(k.first, k.gate, k.served_at)) FILTER (WHERE k.can) AS since,
            array_agg(k.served) FILTER (WHERE k.can) AS served,
            array_agg(k.id) FILTER (WHERE NOT k.can) AS idle_id,
            array_agg(k.rate_at) FILTER (WHERE NOT k.can) AS idle_rate_at
        INTO c FROM (
            SELECT k.*, (NOT k.off AND (k.gate > o_now) IS NOT TRUE AND k.room > 0
                AND k.first <= o_now) IS TRUE AS can
            FROM (
                SELECT x.id, e.application_id, s.served, s.served_at, s.rate_at, e.fifo_batch,
                    e.rate, e.lease_us,
                    s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL AS off,
                    CASE WHEN s.throttled_until IS NOT NULL OR s.open_until IS NOT NULL
                        OR e.rate IS NOT NULL
                    THEN @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes,
                        e.rate, s.rate_at) END AS gate,
                    CASE WHEN e.fifo_batch IS NULL AND e.rate IS NULL AND s.open_until IS NULL
                    THEN least(greatest(greatest(e.in_flight_max, 1) - l.live, 0), 1000000)::integer
                    ELSE @schema@.hook_capacity(e.fifo_batch IS NOT NULL,
                        @schema@.hook_in_flight_max(e.in_flight_max, s.open_until,
                            e.breaker_probes), l.live, e.rate, s.rate_at, o_now) END AS room,
                    e.fifo_batch IS NULL AND f.other IS NULL AS plain,
                    CASE WHEN e.fifo_batch IS NULL AND f.other IS NULL THEN f.first ELSE
                        @schema@.hook_first_due(x.id, e.fifo_batch IS NOT NULL, v_general = 0)
                    END AS first
                FROM unnest(v_ids) AS x (id)
                CROSS JOIN LATERAL (
                    SELECT s.* FROM @schema@.hook_states s WHERE s.endpoint_id = x.id OFFSET 0) s
                CROSS JOIN LATERAL (
                    SELECT e.application_id, e.fifo_batch, e.rate, e.lease_us, e.deleted_at,
                        e.breaker_probes, e.in_flight_max
                    FROM @schema@.hook_endpoints e WHERE e.endpoint_id = x.id OFFSET 0) e
                CROSS JOIN LATERAL (
                    SELECT count(*) AS live FROM (
                        SELECT FROM @schema@.hook_deliveries d
                        WHERE d.endpoint_id = x.id AND d.state = 1 AND d.lease_until > o_now
                        LIMIT e.in_flight_max) d) l
                CROSS JOIN LATERAL (
                    SELECT (SELECT d.due_at FROM @schema@.hook_deliveries d
                        WHERE d.endpoint_id = x.id AND d.state = 0 AND d.class = 0
                        ORDER BY d.due_at LIMIT 1) AS first,
                    (SELECT true FROM @schema@.hook_deliveries d
                        WHERE d.endpoint_id = x.id AND d.state = 0 AND d.class > 0
                        LIMIT 1) AS other OFFSET 0) f
                OFFSET 0) k) k;
        e_id := e_id || c.id; e_app := e_app || c.app; e_fifo := e_fifo || c.fifo;
        e_rate := e_rate || c.rate;
        e_rate_at := e_rate_at || c.rate_at; e_lease := e_lease || c.lease;
        e_room := e_room || c.room; e_plain := e_plain || c.plain;
        e_since := e_since || c.since; e_served := e_served || c.served;
        IF c.idle_id IS NOT NULL THEN
            r_id := r_id || c.idle_id; r_rate := r_rate || c.idle_rate_at;
            r_more := r_more || array_fill(false, ARRAY[cardinality(c.idle_id)]);
            r_place := r_place || array_fill(NULL::bigint, ARRAY[cardinality(c.idle_id)]);
        END IF;
        EXIT WHEN p_pull IS NOT NULL;
    END LOOP;

    -- A key identifies one attempt: a key that is in the log, or holds something, is used up.
    IF v_again THEN
        SELECT array_agg(DISTINCT e.application_id) INTO v_apps FROM unnest(e_id) AS x (id)
        CROSS JOIN LATERAL (
            SELECT e.application_id FROM @schema@.hook_endpoints e
            WHERE e.endpoint_id = x.id OFFSET 0) e;
        FOR c IN
            SELECT x.ask, p_keys[y.key] AS key
            FROM generate_series(p_first, p_first + p_count - 1) AS x (ask)
            CROSS JOIN LATERAL generate_series(
                p_starts[x.ask], p_starts[x.ask] + p_lengths[x.ask] - 1) AS y (key)
            WHERE p_again[y.key] AND p_keys[y.key] <> ALL (v_held) AND coalesce((
                SELECT true FROM @schema@.hook_deliveries d
                WHERE d.lease_key = p_keys[y.key] AND d.state = 1 LIMIT 1), (
                SELECT true FROM unnest(v_apps) AS a (id)
                CROSS JOIN LATERAL (
                    SELECT FROM @schema@.hook_attempts t
                    WHERE t.application_id = a.id AND t.attempt_id = p_keys[y.key] OFFSET 0) t
                LIMIT 1), false)
        LOOP
            v_held := v_held || c.key; v_short := true;
            i := c.ask - p_first + 1;
            a_left[i] := a_left[i] - 1; v_left := v_left - 1;
            IF a_fresh[i] > a_left[i] THEN
                a_fresh[i] := a_left[i];
            ELSE
                v_general := v_general - 1;
            END IF;
        END LOOP;
    END IF;

    SELECT array_agg(x.ord ORDER BY x.since, x.served, x.id) INTO v_order
    FROM unnest(e_id, e_since, e_served) WITH ORDINALITY AS x (id, since, served, ord);
    v_share := (v_left + cardinality(e_id) - 1) / greatest(cardinality(e_id), 1);
    SELECT array_agg(k.turn), array_agg(k.delivery_id) INTO g_turn, g_id FROM (
        SELECT x.turn::integer AS turn, d.delivery_id
        FROM unnest(v_order) WITH ORDINALITY AS x (i, turn)
        CROSS JOIN LATERAL (
            SELECT d.delivery_id, d.due_at FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = e_id[x.i] AND d.state = 0 AND d.class = 0 AND d.due_at <= o_now
            ORDER BY d.due_at, d.delivery_id LIMIT least(v_share, e_room[x.i]) + 1
            FOR NO KEY UPDATE SKIP LOCKED) d
        WHERE e_plain[x.i]
        ORDER BY x.turn, d.due_at, d.delivery_id) k;
    FOR n IN 1..cardinality(e_id) LOOP
        EXIT WHEN v_left = 0;
        i := v_order[n];
        -- The fair share of the attempts that are left, rounded up.
        v_want := least((v_left + cardinality(e_id) - n) / (cardinality(e_id) - n + 1), e_room[i]);
        v_limit := array_position(p_apps, e_app[i]);
        v_want := least(v_want, l_left[v_limit]);
        v_leased := 0; v_more := v_want = 0; v_request := 0;
        v_from := v_at;
        WHILE g_turn[v_at] = n LOOP
            v_at := v_at + 1;
        END LOOP;
        IF v_want = 0 THEN
            t_id := NULL;
        ELSIF e_plain[i] AND (v_want <= v_share OR v_at - v_from <= least(v_share, e_room[i])) THEN
            t_id := g_id[v_from:v_at - 1]; t_fresh := NULL;
        ELSE
            SELECT array_agg(p.delivery_id), array_agg(p.fresh) INTO t_id, t_fresh
            FROM @schema@.hook_pick(e_id[i], e_fifo[i] IS NOT NULL, coalesce(e_fifo[i], v_want),
                v_general, o_now) p;
        END IF;
        FOR j IN 1..coalesce(cardinality(t_id), 0) LOOP
            v_fresh := t_fresh IS NULL OR t_fresh[j];
            IF v_leased = v_want AND e_fifo[i] IS NULL THEN
                v_more := true;
                EXIT;
            END IF;
            IF e_fifo[i] IS NULL OR v_request = 0 THEN
                v_request := 0;
                FOR a IN 1..p_count LOOP
                    IF a_left[a] > (CASE WHEN v_fresh THEN 0 ELSE a_fresh[a] END) THEN
                        v_request := a;
                        EXIT;
                    END IF;
                END LOOP;
                CONTINUE WHEN v_request = 0 AND e_fifo[i] IS NULL;
                EXIT WHEN v_request = 0;
                v_leased := v_leased + 1; v_group := v_group + 1;
            ELSIF a_left[v_request] <= (CASE WHEN v_fresh THEN 0 ELSE a_fresh[v_request] END) THEN
                -- Too few attempts for the whole group.
                EXIT;
            END IF;
            IF a_left[v_request] = a_fresh[v_request] THEN
                a_fresh[v_request] := a_fresh[v_request] - 1;
            ELSE
                v_general := v_general - 1;
            END IF;
            a_left[v_request] := a_left[v_request] - 1; v_left := v_left - 1;
            WHILE p_keys[a_next[v_request]] = ANY (v_held) LOOP
                a_next[v_request] := a_next[v_request] + 1;
            END LOOP;
            o_deliveries := o_deliveries || t_id[j];
            o_keys := o_keys || p_keys[a_next[v_request]];
            o_asks := o_asks || p_first + v_request - 1; o_groups := o_groups || v_group;
            o_endpoints := o_endpoints || e_id[i];
            v_until := v_until || o_now
                + coalesce(p_leases[p_first + v_request - 1], e_lease[i])
                    * interval '1 microsecond';
            a_next[v_request] := a_next[v_request] + 1;
        END LOOP;
        IF v_limit IS NOT NULL THEN
            l_left[v_limit] := l_left[v_limit] - v_leased;
        END IF;
        r_id := r_id || e_id[i]; r_more := r_more || (v_more AND v_want < e_room[i]);
        IF v_leased = 0 THEN
            r_place := r_place || NULL::bigint; r_rate := r_rate || e_rate_at[i];
        ELSE
            r_place := r_place || nextval('@schema@.hook_served');
            r_rate := r_rate
                || @schema@.hook_rate_after(e_rate[i], e_rate_at[i], v_leased, o_now);
        END IF;
    END LOOP;
    IF cardinality(v_until) > 0 THEN
        UPDATE @schema@.hook_deliveries d SET state = 1, lease_key = x.key, lease_at = o_now,
            lease_until = x.until, updated_at = o_now
        FROM (
            SELECT x.key, x.until, k.place
            FROM unnest(o_deliveries[v_begin:], o_keys[v_begin:], v_until) AS x (id, key, until)
            CROSS JOIN LATERAL (
                SELECT k.ctid AS place FROM @schema@.hook_deliveries k
                WHERE k.delivery_id = x.id OFFSET 0) k OFFSET 0) x
        WHERE d.ctid = x.place;
    END IF;
    IF r_id <> '{}' THEN
        PERFORM @schema@.hook_reschedule(r_id, r_more, r_place, r_rate, o_now);
    END IF;
    IF v_left > 0 OR v_short OR p_further IS NOT NULL THEN
        IF p_apps <> '{}' THEN
            v_full := ARRAY(
                SELECT x.app FROM unnest(p_apps, l_left) AS x (app, most) WHERE x.most <= 0);
        END IF;
        SELECT x.o_code, x.o_due_us INTO o_code, o_due_us
        FROM @schema@.hook_next_due(p_pull,
            CASE WHEN p_further IS NOT NULL THEN p_further
                WHEN v_short THEN v_only_fresh ELSE v_general = 0 END, v_seen, o_now,
            o_deliveries <> '{}', v_full) x;
        -- Endpoints that were not reached are not locked by other claims.
        IF o_code = 2 AND NOT v_short AND (v_left = 0 OR v_general = 0 AND NOT p_further) THEN
            o_code := 0; o_due_us := 0;
        END IF;
    END IF;
END
$$;
