-- Computes when some endpoints are due, and what holds them back. The caller holds their states and
-- has read them at p_now. p_more: it is known that more is due. p_served, p_rates: the position in
-- the order of service and the rate of those that were served.
--
-- Moving due_at to a later time needs the endpoint FOR UPDATE, without waiting, and then a new
-- check (see the migration); if the lock is not available, the endpoint stays due in a moment. Lock
-- order: endpoints and leases, without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_reschedule(
    p_ids uuid[], p_more boolean[], p_served bigint[], p_rates timestamptz[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    -- By endpoint: whether it is locked FOR UPDATE.
    v_quiet boolean[];
    -- The new values, for the states at these positions, which are locked.
    u_place tid[];
    u_due timestamptz[];
    u_fresh boolean[];
    u_served bigint[];
    u_rate timestamptz[];
    v_ready integer[];
BEGIN
    SELECT array_agg(e.quiet ORDER BY x.ord) INTO v_quiet
    FROM unnest(p_ids, p_more) WITH ORDINALITY AS x (id, more, ord)
    LEFT JOIN LATERAL (
        SELECT true AS quiet FROM @schema@.hook_endpoints e
        WHERE e.endpoint_id = x.id AND NOT x.more FOR UPDATE SKIP LOCKED) e ON true;
    SELECT array_agg(w.place) FILTER (WHERE w.news AND NOT w.ready),
        array_agg(w.due) FILTER (WHERE w.news AND NOT w.ready),
        array_agg(w.fresh) FILTER (WHERE w.news AND NOT w.ready),
        array_agg(w.served) FILTER (WHERE w.news AND NOT w.ready),
        array_agg(w.rate_at) FILTER (WHERE w.news AND NOT w.ready),
        array_agg(w.ord) FILTER (WHERE w.ready)
    INTO u_place, u_due, u_fresh, u_served, u_rate, v_ready FROM (
        SELECT k.*, k.served IS NOT NULL OR k.due IS DISTINCT FROM k.due_at OR k.held <> 0
            OR k.fresh <> k.was_fresh AS news
        FROM (
            SELECT x.ord, x.served, x.rate_at, s.place, s.due_at, s.held, s.fresh AS was_fresh,
                s.fresh AND (x.more OR x.quiet IS NOT TRUE OR CASE WHEN f.plain THEN f.first
                    ELSE @schema@.hook_first_due(x.id, false, true) END IS NOT NULL) AS fresh,
                CASE WHEN x.more THEN p_now
                    WHEN s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL THEN l.until
                    WHEN x.quiet IS NOT TRUE THEN p_now + interval '2 milliseconds'
                    ELSE least(l.until, greatest(f.due, CASE WHEN f.due IS NOT NULL THEN
                        @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes,
                            e.rate, x.rate_at) END)) END AS due,
                NOT x.more AND s.disabled IS NULL AND e.deleted_at IS NULL AND f.due IS NOT NULL
                    AND (f.due <= p_now OR e.fifo_batch IS NOT NULL) AS ready
            FROM unnest(p_ids, p_more, p_served, p_rates, v_quiet) WITH ORDINALITY
                AS x (id, more, served, rate_at, quiet, ord)
            CROSS JOIN LATERAL (
                SELECT s.*, s.ctid AS place FROM @schema@.hook_states s
                WHERE s.endpoint_id = x.id OFFSET 0) s
            CROSS JOIN LATERAL (
                SELECT e.fifo_batch, e.rate, e.deleted_at, e.breaker_probes
                FROM @schema@.hook_endpoints e WHERE e.endpoint_id = x.id OFFSET 0) e
            CROSS JOIN LATERAL (
                SELECT CASE WHEN NOT x.more THEN (SELECT d.lease_until
                    FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = x.id AND d.state = 1
                    ORDER BY d.lease_until LIMIT 1) END AS until OFFSET 0) l
            CROSS JOIN LATERAL (
                SELECT f.plain, f.first, CASE WHEN f.plain THEN f.first WHEN NOT x.more THEN
                    @schema@.hook_first_due(x.id, e.fifo_batch IS NOT NULL, false) END AS due
                FROM (
                    SELECT NOT x.more AND e.fifo_batch IS NULL AND (
                        SELECT true FROM @schema@.hook_deliveries d
                        WHERE d.endpoint_id = x.id AND d.state = 0 AND d.class > 0
                        LIMIT 1) IS NULL AS plain,
                    (SELECT d.due_at FROM @schema@.hook_deliveries d
                        WHERE d.endpoint_id = x.id AND d.state = 0 AND d.class = 0
                        ORDER BY d.due_at LIMIT 1) AS first OFFSET 0) f OFFSET 0) f
            OFFSET 0) k) w;
    IF u_place IS NOT NULL THEN
        UPDATE @schema@.hook_states s SET due_at = u.due, held = 0, held_since = NULL,
            fresh = u.fresh, served = coalesce(u.served, s.served), rate_at = u.rate_at,
            served_at = CASE WHEN u.served IS NULL THEN s.served_at ELSE p_now END
        FROM unnest(u_place, u_due, u_fresh, u_served, u_rate)
            AS u (place, due, fresh, served, rate_at)
        WHERE s.ctid = u.place;
    END IF;
    FOR n IN 1..coalesce(cardinality(v_ready), 0) LOOP
        PERFORM @schema@.hook_hold(p_ids[v_ready[n]], v_quiet[v_ready[n]], p_served[v_ready[n]],
            p_rates[v_ready[n]], p_now);
    END LOOP;
END
$$;
