-- Reckons anew when some endpoints are due, and what holds them back. The caller holds their states
-- and has looked at them at p_now. p_more: it is known that more is due. p_served, p_rates: the
-- place in the order of service and the rate of those that were served.
--
-- Moving due_at to a later time needs the endpoint FOR UPDATE, tried, and then a new look (see
-- the migration); where it cannot be had, the endpoint stays due in a moment. Where leases hold
-- up what is due, they are locked as well, tried, so that settling one of them sees it.
-- Called by: hook_claim_line. Lock order: endpoints and leases, only tried.

CREATE OR REPLACE FUNCTION @schema@.hook_rest(
    p_ids uuid[], p_more boolean[], p_served bigint[], p_rates timestamptz[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_quiet uuid[];
    v_locked bigint;
    v_due timestamptz;
    v_held smallint;
    v_fresh boolean;
BEGIN
    SELECT array_agg(k.endpoint_id) INTO v_quiet FROM (
        SELECT e.endpoint_id FROM unnest(p_ids, p_more) AS x (endpoint_id, more)
        JOIN @schema@.hook_endpoints e ON e.endpoint_id = x.endpoint_id
        WHERE NOT x.more
        FOR UPDATE OF e SKIP LOCKED) k;
    FOR c IN
        SELECT x.*, s.due_at, s.held, s.held_since, s.fresh, s.served_at,
            e.fifo_batch IS NOT NULL AS fifo,
            s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL AS off,
            @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes, e.rate, x.rate_at)
                AS gate,
            @schema@.hook_most(e.in_flight_max, s.open_until, e.breaker_probes) AS most,
            CASE WHEN NOT x.more THEN
                @schema@.hook_first_due(x.endpoint_id, e.fifo_batch IS NOT NULL, false)
            END AS first,
            -- In strict order too, whatever stands before it.
            CASE WHEN NOT x.more AND s.fresh THEN
                @schema@.hook_first_due(x.endpoint_id, false, true)
            END AS first_fresh,
            l.until, l.live, x.endpoint_id = ANY (v_quiet) AS quiet
        FROM unnest(p_ids, p_more, p_served, p_rates)
            AS x (endpoint_id, more, place, rate_at)
        JOIN @schema@.hook_states s ON s.endpoint_id = x.endpoint_id
        JOIN @schema@.hook_endpoints e ON e.endpoint_id = x.endpoint_id
        CROSS JOIN LATERAL (
            SELECT min(d.lease_until) AS until, count(*) AS live FROM (
                SELECT d.lease_until FROM @schema@.hook_deliveries d
                WHERE d.endpoint_id = x.endpoint_id AND d.state = 1 AND NOT x.more
                ORDER BY d.lease_until LIMIT e.in_flight_max + 1) d) l
    LOOP
        v_held := 0;
        v_fresh := c.fresh AND (c.more OR c.first_fresh IS NOT NULL OR c.quiet IS NOT TRUE);
        IF c.more THEN
            v_due := p_now;
        ELSIF c.off THEN
            v_due := c.until;
        ELSIF c.first IS NOT NULL AND (c.first <= p_now OR c.fifo AND c.live = 0) THEN
            IF greatest(c.gate, c.first) > p_now THEN
                v_due := least(c.until, greatest(c.gate, c.first)); v_held := 2;
            ELSIF c.live >= (CASE WHEN c.fifo THEN 1 ELSE c.most END) THEN
                v_due := c.until; v_held := 1;
                SELECT count(*) INTO v_locked FROM (
                    SELECT FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = c.endpoint_id AND d.state = 1
                    FOR NO KEY UPDATE SKIP LOCKED) k;
                IF v_locked < c.live THEN
                    v_due := p_now + interval '2 milliseconds'; v_held := 0;
                END IF;
            ELSE
                v_due := greatest(c.first, c.gate, c.served_at,
                    CASE WHEN c.place IS NOT NULL THEN p_now END);
            END IF;
        ELSIF c.quiet IS NOT TRUE THEN
            v_due := p_now + interval '2 milliseconds';
        ELSE
            v_due := least(c.until, greatest(c.first, CASE WHEN c.first IS NOT NULL THEN c.gate END));
        END IF;
        IF c.place IS NOT NULL OR v_due IS DISTINCT FROM c.due_at OR v_held <> c.held
            OR v_fresh <> c.fresh
        THEN
            UPDATE @schema@.hook_states s SET due_at = v_due, held = v_held, fresh = v_fresh,
                held_since = CASE WHEN v_held = 1
                    THEN greatest(c.first, CASE WHEN c.place IS NULL THEN c.served_at ELSE p_now END)
                    END,
                served = coalesce(c.place, s.served), rate_at = c.rate_at,
                served_at = CASE WHEN c.place IS NULL THEN s.served_at ELSE p_now END
            WHERE s.endpoint_id = c.endpoint_id;
        END IF;
    END LOOP;
END
$$;
