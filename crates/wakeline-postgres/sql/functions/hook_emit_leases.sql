-- For new deliveries that are about to be inserted: leases those that can be sent at once to the
-- requests that were passed with the messages, and makes the endpoints of the others due.
-- p_endpoints: by id; p_may, p_wake: by a check without locks, something might be leased; the
-- endpoint must be made due. p_commands, p_targets: by delivery, in order, its command and the
-- index of its endpoint. By request: p_asks, its command; p_leases, p_starts, p_lengths, p_keys:
-- see hook_claim. o_places: the leased deliveries, with the keys, requests and ends. Lock order:
-- states by id; those to which something might be leased only without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_emit_leases(
    p_endpoints uuid[], p_may boolean[], p_wake boolean[], p_commands integer[],
    p_targets integer[], p_asks integer[], p_leases bigint[], p_starts integer[],
    p_lengths integer[], p_keys uuid[], p_now timestamptz,
    OUT o_places integer[], OUT o_keys uuid[], OUT o_asks integer[], OUT o_untils timestamptz[])
LANGUAGE plpgsql AS $$
DECLARE
    s record;
    a_left integer[] := p_lengths;
    v_free integer := cardinality(p_keys);
    v_mine integer[];
    v_request integer;
    v_live bigint;
    v_waits boolean;
    v_capacity integer;
    v_leased integer;
    v_until timestamptz;
BEGIN
    o_places := '{}'; o_keys := '{}'; o_asks := '{}'; o_untils := '{}';
    FOR n IN 1..cardinality(p_endpoints) LOOP
        CONTINUE WHEN NOT p_wake[n] AND (NOT p_may[n] OR v_free = 0);
        v_mine := array_positions(p_targets, n);
        CONTINUE WHEN v_mine = '{}';
        v_leased := 0; v_until := NULL;
        IF p_may[n] AND v_free > 0 THEN
            SELECT k.endpoint_id, k.disabled, k.due_at, k.rate_at, k.open_until, e.rate, e.lease_us,
                e.in_flight_max, e.breaker_probes, e.fifo_batch IS NOT NULL AS fifo,
                CASE WHEN k.throttled_until IS NOT NULL OR k.open_until IS NOT NULL
                    OR e.rate IS NOT NULL
                THEN @schema@.hook_gate(k.throttled_until, k.open_until, e.breaker_probes, e.rate,
                    k.rate_at) END AS gate
            INTO s FROM @schema@.hook_states k
            CROSS JOIN LATERAL (
                SELECT e.rate, e.lease_us, e.in_flight_max, e.breaker_probes, e.fifo_batch
                FROM @schema@.hook_endpoints e WHERE e.endpoint_id = p_endpoints[n] OFFSET 0) e
            WHERE k.endpoint_id = p_endpoints[n] AND NOT k.pull
            FOR NO KEY UPDATE OF k SKIP LOCKED;
            v_capacity := 0;
            IF FOUND AND s.disabled IS NULL AND (s.gate > p_now) IS NOT TRUE THEN
                -- An expired lease counts as a waiting delivery.
                SELECT count(*), coalesce((SELECT true FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = s.endpoint_id AND d.state = 0 LIMIT 1), (
                    SELECT true FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = s.endpoint_id AND d.state = 1
                        AND d.lease_until <= CASE WHEN s.fifo THEN 'infinity' ELSE p_now END
                    LIMIT 1))
                INTO v_live, v_waits FROM (
                    SELECT FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = s.endpoint_id AND d.state = 1 AND d.lease_until > p_now
                    LIMIT s.in_flight_max) d;
                IF v_waits IS NULL AND s.rate IS NULL AND s.open_until IS NULL AND NOT s.fifo THEN
                    v_capacity := greatest(s.in_flight_max, 1) - v_live;
                ELSIF v_waits IS NULL THEN
                    v_capacity := @schema@.hook_capacity(s.fifo,
                        @schema@.hook_in_flight_max(s.in_flight_max, s.open_until,
                            s.breaker_probes), v_live, s.rate, s.rate_at, p_now);
                END IF;
            END IF;
            FOR m IN 1..least(v_capacity, cardinality(v_mine)) LOOP
                v_request := NULL;
                FOR a IN 1..cardinality(p_asks) LOOP
                    IF p_asks[a] = p_commands[v_mine[m]] AND a_left[a] > 0 THEN
                        v_request := a;
                        EXIT;
                    END IF;
                END LOOP;
                EXIT WHEN v_request IS NULL;
                o_places := o_places || v_mine[m]; o_asks := o_asks || v_request;
                o_keys := o_keys
                    || p_keys[p_starts[v_request] + p_lengths[v_request] - a_left[v_request]];
                o_untils := o_untils || p_now
                    + coalesce(p_leases[v_request], s.lease_us) * interval '1 microsecond';
                v_until := least(v_until, o_untils[cardinality(o_untils)]);
                a_left[v_request] := a_left[v_request] - 1; v_free := v_free - 1;
                v_leased := v_leased + 1;
            END LOOP;
        END IF;
        IF v_leased > 0 THEN
            -- If nothing waits, its position in the order of service does not matter, and usually
            -- nothing has to be written.
            CONTINUE WHEN v_leased = cardinality(v_mine) AND s.rate IS NULL AND s.due_at <= v_until;
            UPDATE @schema@.hook_states k SET
                served = nextval('@schema@.hook_served'), served_at = p_now,
                rate_at = CASE WHEN s.rate IS NULL THEN k.rate_at
                    ELSE @schema@.hook_rate_after(s.rate, s.rate_at, v_leased, p_now) END,
                fresh = k.fresh OR v_leased < cardinality(v_mine),
                due_at = least(k.due_at, v_until,
                    CASE WHEN k.held = 0 AND v_leased < cardinality(v_mine) THEN p_now END)
            WHERE k.endpoint_id = s.endpoint_id;
        ELSE
            UPDATE @schema@.hook_states k SET fresh = true,
                due_at = CASE WHEN k.held = 0 THEN least(k.due_at, p_now) ELSE k.due_at END
            WHERE k.endpoint_id = p_endpoints[n] AND k.disabled IS NULL
                AND (NOT k.fresh OR k.held = 0 AND (k.due_at IS NULL OR k.due_at > p_now));
        END IF;
    END LOOP;
END
$$;
