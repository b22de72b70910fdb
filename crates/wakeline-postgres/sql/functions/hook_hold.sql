-- Computes when an endpoint is due for which a waiting delivery is due already, or that is ordered;
-- and what holds it back: leases (held 1), or a time (held 2). If leases do, they are locked,
-- without waiting, so that settling one of them sees it. p_quiet: the endpoint is locked FOR
-- UPDATE. p_served, p_rate_at: see hook_reschedule. Lock order: leases, without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_hold(
    p_id uuid, p_quiet boolean, p_served bigint, p_rate_at timestamptz, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_locked bigint;
    v_due timestamptz;
    v_held smallint := 0;
    v_fresh boolean;
BEGIN
    SELECT s.due_at, s.held, s.fresh, s.served_at, e.fifo_batch IS NOT NULL AS fifo,
        @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes, e.rate, p_rate_at)
            AS gate,
        @schema@.hook_in_flight_max(e.in_flight_max, s.open_until, e.breaker_probes) AS most,
        @schema@.hook_first_due(p_id, e.fifo_batch IS NOT NULL, false) AS first,
        -- In strict order too, whatever is before it.
        CASE WHEN s.fresh THEN @schema@.hook_first_due(p_id, false, true) END AS first_fresh,
        l.until, l.live
    INTO c FROM @schema@.hook_states s
    CROSS JOIN LATERAL (
        SELECT e.fifo_batch, e.rate, e.in_flight_max, e.breaker_probes
        FROM @schema@.hook_endpoints e WHERE e.endpoint_id = p_id OFFSET 0) e
    CROSS JOIN LATERAL (
        SELECT min(d.lease_until) AS until, count(*) AS live FROM (
            SELECT d.lease_until FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_id AND d.state = 1
            ORDER BY d.lease_until LIMIT e.in_flight_max + 1) d) l
    WHERE s.endpoint_id = p_id;
    v_fresh := c.fresh AND (c.first_fresh IS NOT NULL OR p_quiet IS NOT TRUE);
    IF c.first IS NOT NULL AND (c.first <= p_now OR c.fifo AND c.live = 0) THEN
        IF greatest(c.gate, c.first) > p_now THEN
            v_due := least(c.until, greatest(c.gate, c.first)); v_held := 2;
        ELSIF c.live >= (CASE WHEN c.fifo THEN 1 ELSE c.most END) THEN
            v_due := c.until; v_held := 1;
            SELECT count(*) INTO v_locked FROM (
                SELECT FROM @schema@.hook_deliveries d
                WHERE d.endpoint_id = p_id AND d.state = 1
                FOR NO KEY UPDATE SKIP LOCKED) k;
            IF v_locked < c.live THEN
                v_due := p_now + interval '2 milliseconds'; v_held := 0;
            END IF;
        ELSE
            v_due := greatest(c.first, c.gate, c.served_at,
                CASE WHEN p_served IS NOT NULL THEN p_now END);
        END IF;
    ELSIF p_quiet IS NOT TRUE THEN
        v_due := p_now + interval '2 milliseconds';
    ELSE
        v_due := least(c.until, greatest(c.first, CASE WHEN c.first IS NOT NULL THEN c.gate END));
    END IF;
    IF p_served IS NOT NULL OR v_due IS DISTINCT FROM c.due_at OR v_held <> c.held
        OR v_fresh <> c.fresh
    THEN
        UPDATE @schema@.hook_states s SET due_at = v_due, held = v_held, fresh = v_fresh,
            held_since = CASE WHEN v_held = 1
                THEN greatest(c.first, CASE WHEN p_served IS NULL THEN c.served_at ELSE p_now END)
                END,
            served = coalesce(p_served, s.served), rate_at = p_rate_at,
            served_at = CASE WHEN p_served IS NULL THEN s.served_at ELSE p_now END
        WHERE s.endpoint_id = p_id;
    END IF;
END
$$;
