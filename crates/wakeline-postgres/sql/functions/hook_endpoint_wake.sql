-- Makes an endpoint due for whatever waits for it; what holds it back is left to the next claim to see.
-- This may move due_at to a later time, or away, which needs the endpoint FOR UPDATE, and then a new look
-- (see the migration). Where it cannot be had, an emit may be under way: the endpoint is due now.
-- Called by: interventions and changes of endpoints, which hold its state. Returns when it is due.
-- Lock order: the endpoint, only tried.

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
