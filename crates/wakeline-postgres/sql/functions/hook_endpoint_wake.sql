-- Makes an endpoint due for its waiting deliveries; the next claim checks what holds it back. This
-- may move due_at to a later time, or remove it, which needs the endpoint FOR UPDATE, and then a
-- new check (see the migration). If that lock is not available, an emit may be in progress, and the
-- endpoint is due now. Returns when it is due. Lock order: the endpoint, without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_wake(p_endpoint uuid, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    v_due timestamptz := p_now;
BEGIN
    PERFORM FROM @schema@.hook_endpoints e WHERE e.endpoint_id = p_endpoint
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        v_due := least(@schema@.hook_first_due(p_endpoint, false, false), (
            SELECT d.lease_until FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 1 ORDER BY d.lease_until LIMIT 1));
    END IF;
    UPDATE @schema@.hook_states s SET held = 0, held_since = NULL, fresh = true, due_at = v_due
    WHERE s.endpoint_id = p_endpoint;
    RETURN v_due;
END
$$;
