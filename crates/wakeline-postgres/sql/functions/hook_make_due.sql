-- Makes one manual attempt of some deliveries due now. Deliveries that are in flight, have no
-- payload, or whose endpoints are disabled are skipped. Returns those that it changed. p_ids:
-- locked by the caller. Lock order: see hook_reclaim.

CREATE OR REPLACE FUNCTION @schema@.hook_make_due(p_ids bigint[], p_now timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_over uuid[];
    v_changed bigint[];
BEGIN
    -- Driven by the deliveries: a plan made on small tables might read all leases.
    SELECT array_agg(DISTINCT d.endpoint_id) INTO v_over FROM unnest(p_ids) AS x (id)
    CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.state, d.lease_until FROM @schema@.hook_deliveries d
        WHERE d.delivery_id = x.id OFFSET 0) d
    WHERE d.state = 1 AND d.lease_until <= p_now;
    IF v_over IS NOT NULL THEN
        PERFORM @schema@.hook_reclaim(v_over, p_now);
    END IF;
    p_ids := @schema@.hook_sendable(p_ids);
    WITH again AS (
        UPDATE @schema@.hook_deliveries d SET state = 0, class = 2, manual = true,
            fifo = (SELECT e.fifo_batch IS NOT NULL FROM @schema@.hook_endpoints e
                WHERE e.endpoint_id = d.endpoint_id),
            back_state = CASE WHEN d.manual THEN d.back_state ELSE d.state END,
            back_behind = CASE WHEN d.manual THEN d.back_behind
                WHEN d.state = 0 THEN d.class > 1 END,
            back_due = CASE WHEN d.manual THEN d.back_due WHEN d.state = 0 THEN d.due_at END,
            due_at = p_now, updated_at = p_now
        WHERE d.delivery_id = ANY (p_ids) AND d.state <> 1
        RETURNING d.delivery_id
    )
    SELECT array_agg(a.delivery_id) INTO v_changed FROM again a;
    RETURN v_changed;
END
$$;
