-- Returns when an endpoint has something to claim if nothing else changes; NULL if it has nothing.
-- The time is not later than that of the first waiting delivery, even if leases hold it back
-- longer: settling one of them only notifies of what is due already. Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_seen_due(p_endpoint uuid, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c record;
    v_first timestamptz;
BEGIN
    SELECT e.fifo_batch IS NOT NULL AS fifo,
        @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes, e.rate, s.rate_at)
            AS gate,
        @schema@.hook_in_flight_max(e.in_flight_max, s.open_until, e.breaker_probes) AS most,
        l.live, l.until
    INTO c FROM @schema@.hook_states s
    JOIN @schema@.hook_endpoints e ON e.endpoint_id = s.endpoint_id
    CROSS JOIN LATERAL (
        SELECT min(d.lease_until) AS until, count(*) AS live FROM (
            SELECT d.lease_until FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 1
            ORDER BY d.lease_until LIMIT e.in_flight_max) d) l
    WHERE s.endpoint_id = p_endpoint AND s.disabled IS NULL AND e.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    v_first := @schema@.hook_first_due(p_endpoint, c.fifo, false);
    IF v_first IS NULL OR c.live >= (CASE WHEN c.fifo THEN 1 ELSE c.most END)
        AND (c.fifo OR greatest(v_first, c.gate) <= p_now)
    THEN
        RETURN c.until;
    END IF;
    RETURN least(c.until, greatest(v_first, c.gate));
END
$$;
