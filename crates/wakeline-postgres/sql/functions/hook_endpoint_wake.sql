-- Makes an endpoint due for whatever waits for it; what holds it back is left to the next claim to see.
-- Called by: interventions and changes of endpoints, which hold its state. Returns when it is due.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_wake(p_endpoint uuid, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    v_due timestamptz;
BEGIN
    UPDATE @schema@.hook_states s SET held = 0, held_since = NULL, fresh = true,
        due_at = least(@schema@.hook_first_due(p_endpoint, false, false), (
            SELECT d.lease_until FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = p_endpoint AND d.state = 1 ORDER BY d.lease_until LIMIT 1))
    WHERE s.endpoint_id = p_endpoint
    RETURNING s.due_at INTO v_due;
    RETURN v_due;
END
$$;
