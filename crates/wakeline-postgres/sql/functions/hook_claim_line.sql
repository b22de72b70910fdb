-- Leases deliveries to the asks of one line. p_first, p_count: which asks are the line's.
-- Other parameters and results: see hook_claim.
-- First it gathers endpoints that can give something, as many as there are attempts to be made, in
-- order of service; then each gives its fair share; then it is reckoned when they are due again.
-- Called by: hook_claim. Lock order: states, endpoints, deliveries: all only tried, except the
-- first state if p_patient.

CREATE OR REPLACE FUNCTION @schema@.hook_claim_line(
    p_pull uuid, p_first integer, p_count integer, p_fresh integer[], p_leases bigint[],
    p_starts integer[], p_lengths integer[], p_keys uuid[], p_again boolean[], p_patient boolean,
    OUT o_deliveries bigint[], OUT o_keys uuid[], OUT o_asks integer[], OUT o_groups integer[],
    OUT o_endpoints uuid[], OUT o_code smallint, OUT o_due_us bigint, OUT o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    t record;
    -- By ask: attempts left, those of them for first attempts only, the next key.
    a_left integer[] := p_lengths[p_first:p_first + p_count - 1];
    a_fresh integer[] := p_fresh[p_first:p_first + p_count - 1];
    a_next integer[] := p_starts[p_first:p_first + p_count - 1];
    v_left integer := 0;
    v_general integer := 0;
    v_held uuid[] := '{}';
    v_ids uuid[];
    v_over uuid[];
    v_seen uuid[] := '{}';
    v_due timestamptz := '-infinity';
    v_served bigint := -1;
    v_last uuid := '00000000-0000-0000-0000-000000000000';
    -- Endpoints that can give something.
    e_id uuid[] := '{}';
    e_fifo integer[] := '{}';
    e_rate bigint[] := '{}';
    e_rate_at timestamptz[] := '{}';
    e_lease bigint[] := '{}';
    e_room integer[] := '{}';
    e_since timestamptz[] := '{}';
    e_served bigint[] := '{}';
    -- Endpoints whose next time is to be reckoned.
    r_id uuid[] := '{}';
    r_more boolean[] := '{}';
    r_place bigint[] := '{}';
    r_rate timestamptz[] := '{}';
    v_order integer[];
    i integer;
    v_ask integer;
    v_want integer;
    v_given integer;
    v_more boolean;
    v_group integer := 0;
    v_begin integer;
    v_until timestamptz[] := '{}';
BEGIN
    o_deliveries := '{}'; o_keys := '{}'; o_asks := '{}'; o_groups := '{}'; o_endpoints := '{}';
    o_code := 0;
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '50ms', true);
        PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = coalesce(p_pull, (
            SELECT f.endpoint_id FROM @schema@.hook_states f
            WHERE NOT f.pull AND f.due_at IS NOT NULL
            ORDER BY f.due_at, f.served, f.endpoint_id LIMIT 1))
        FOR NO KEY UPDATE;
    END IF;
    o_now := @schema@.clock();
    -- What the claim's first try leased, if this is its second.
    IF true = ANY (p_again[p_starts[p_first]:p_starts[p_first + p_count - 1]
        + p_lengths[p_first + p_count - 1] - 1])
    THEN
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

    WHILE cardinality(e_id) < v_left LOOP
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
                ORDER BY s.due_at, s.served, s.endpoint_id LIMIT v_left - cardinality(e_id)
                FOR NO KEY UPDATE SKIP LOCKED) k;
        ELSE
            SELECT array_agg(k.endpoint_id), max(k.due_at),
                (array_agg(k.served))[count(*)], (array_agg(k.endpoint_id))[count(*)]
            INTO v_ids, v_due, v_served, v_last FROM (
                SELECT s.endpoint_id, s.due_at, s.served FROM @schema@.hook_states s
                WHERE NOT s.pull AND s.due_at <= o_now
                    AND (s.due_at, s.served, s.endpoint_id) > (v_due, v_served, v_last)
                ORDER BY s.due_at, s.served, s.endpoint_id LIMIT v_left - cardinality(e_id)
                FOR NO KEY UPDATE SKIP LOCKED) k;
        END IF;
        EXIT WHEN v_ids IS NULL;
        v_seen := v_seen || v_ids;
        SELECT array_agg(x.id) INTO v_over FROM unnest(v_ids) AS x (id) WHERE EXISTS (
            SELECT FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = x.id AND d.state = 1 AND d.lease_until <= o_now);
        IF v_over IS NOT NULL THEN
            PERFORM @schema@.hook_reclaim(v_over, o_now);
        END IF;
        FOR c IN
            SELECT s.endpoint_id, s.served, s.served_at, s.rate_at, e.fifo_batch, e.rate,
                e.lease_us,
                s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL AS off,
                @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes, e.rate,
                    s.rate_at) AS gate,
                @schema@.hook_room(e.fifo_batch IS NOT NULL,
                    @schema@.hook_most(e.in_flight_max, s.open_until, e.breaker_probes),
                    l.live, e.rate, s.rate_at, o_now) AS room,
                @schema@.hook_first_due(s.endpoint_id, e.fifo_batch IS NOT NULL, v_general = 0)
                    AS first
            FROM unnest(v_ids) AS x (id)
            JOIN @schema@.hook_states s ON s.endpoint_id = x.id
            JOIN @schema@.hook_endpoints e ON e.endpoint_id = x.id
            CROSS JOIN LATERAL (
                SELECT count(*) AS live FROM (
                    SELECT FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = x.id AND d.state = 1 AND d.lease_until > o_now
                    LIMIT e.in_flight_max) d) l
        LOOP
            IF c.off OR c.gate > o_now OR c.room = 0 OR c.first IS NULL OR c.first > o_now THEN
                r_id := r_id || c.endpoint_id; r_more := r_more || false;
                r_place := r_place || NULL::bigint; r_rate := r_rate || c.rate_at;
                CONTINUE;
            END IF;
            e_id := e_id || c.endpoint_id; e_fifo := e_fifo || c.fifo_batch;
            e_rate := e_rate || c.rate; e_rate_at := e_rate_at || c.rate_at;
            e_lease := e_lease || c.lease_us; e_room := e_room || c.room;
            e_since := e_since || greatest(c.first, c.gate, c.served_at);
            e_served := e_served || c.served;
        END LOOP;
        EXIT WHEN p_pull IS NOT NULL;
    END LOOP;

    SELECT array_agg(x.ord ORDER BY x.since, x.served, x.id) INTO v_order
    FROM unnest(e_id, e_since, e_served) WITH ORDINALITY AS x (id, since, served, ord);
    FOR n IN 1..cardinality(e_id) LOOP
        EXIT WHEN v_left = 0;
        i := v_order[n];
        -- The fair share of those that are left, rounded up.
        v_want := least((v_left + cardinality(e_id) - n) / (cardinality(e_id) - n + 1), e_room[i]);
        v_given := 0; v_more := false; v_ask := 0;
        FOR t IN SELECT p.delivery_id, p.fresh FROM @schema@.hook_pick(e_id[i],
            e_fifo[i] IS NOT NULL, coalesce(e_fifo[i], v_want), v_general, o_now) p
        LOOP
            IF v_given = v_want AND e_fifo[i] IS NULL THEN
                v_more := true;
                EXIT;
            END IF;
            IF e_fifo[i] IS NULL OR v_ask = 0 THEN
                v_ask := 0;
                FOR a IN 1..p_count LOOP
                    IF a_left[a] > (CASE WHEN t.fresh THEN 0 ELSE a_fresh[a] END) THEN
                        v_ask := a;
                        EXIT;
                    END IF;
                END LOOP;
                CONTINUE WHEN v_ask = 0 AND e_fifo[i] IS NULL;
                EXIT WHEN v_ask = 0;
                v_given := v_given + 1; v_group := v_group + 1;
            ELSIF a_left[v_ask] <= (CASE WHEN t.fresh THEN 0 ELSE a_fresh[v_ask] END) THEN
                -- Too few attempts for the whole group.
                EXIT;
            END IF;
            IF a_left[v_ask] = a_fresh[v_ask] THEN
                a_fresh[v_ask] := a_fresh[v_ask] - 1;
            ELSE
                v_general := v_general - 1;
            END IF;
            a_left[v_ask] := a_left[v_ask] - 1; v_left := v_left - 1;
            WHILE p_keys[a_next[v_ask]] = ANY (v_held) LOOP
                a_next[v_ask] := a_next[v_ask] + 1;
            END LOOP;
            o_deliveries := o_deliveries || t.delivery_id;
            o_keys := o_keys || p_keys[a_next[v_ask]];
            o_asks := o_asks || p_first + v_ask - 1; o_groups := o_groups || v_group;
            o_endpoints := o_endpoints || e_id[i];
            v_until := v_until || o_now
                + coalesce(p_leases[p_first + v_ask - 1], e_lease[i]) * interval '1 microsecond';
            a_next[v_ask] := a_next[v_ask] + 1;
        END LOOP;
        r_id := r_id || e_id[i]; r_more := r_more || (v_more AND v_want < e_room[i]);
        IF v_given = 0 THEN
            r_place := r_place || NULL::bigint; r_rate := r_rate || e_rate_at[i];
        ELSE
            r_place := r_place || nextval('@schema@.hook_served');
            r_rate := r_rate
                || @schema@.hook_rate_after(e_rate[i], e_rate_at[i], v_given, o_now);
        END IF;
    END LOOP;
    IF cardinality(v_until) > 0 THEN
        UPDATE @schema@.hook_deliveries d SET state = 1, lease_key = x.key, lease_at = o_now,
            lease_until = x.until, updated_at = o_now
        FROM unnest(o_deliveries[v_begin:], o_keys[v_begin:], v_until) AS x (id, key, until)
        WHERE d.delivery_id = x.id;
    END IF;
    IF r_id <> '{}' THEN
        PERFORM @schema@.hook_rest(r_id, r_more, r_place, r_rate, o_now);
    END IF;
    IF v_left > 0 THEN
        SELECT x.o_code, x.o_due_us INTO o_code, o_due_us
        FROM @schema@.hook_next_due(p_pull, v_general = 0, v_seen, o_now) x;
    END IF;
END
$$;
