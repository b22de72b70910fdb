-- Returns when the first delivery that waits for an endpoint is due; for an ordered endpoint its
-- first open one, if that waits (otherwise NULL, as hook_pick finds nothing either). p_fresh: first
-- attempts only. Reads only; at most four index probes.

CREATE OR REPLACE FUNCTION @schema@.hook_first_due(
    p_endpoint uuid, p_fifo boolean, p_fresh boolean)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_first timestamptz;
    v_due timestamptz;
    h record;
BEGIN
    IF p_fifo THEN
        SELECT d.state, d.class, d.due_at INTO h FROM @schema@.hook_deliveries d
        WHERE d.endpoint_id = p_endpoint AND d.fifo AND d.state < 2
        ORDER BY d.delivery_id LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        ELSIF h.state = 0 THEN
            RETURN CASE WHEN NOT p_fresh OR h.class IN (0, 3) THEN h.due_at END;
        END IF;
    END IF;
    FOR v_class IN 0..3 LOOP
        CONTINUE WHEN p_fresh AND v_class IN (1, 2);
        SELECT d.due_at INTO v_due FROM @schema@.hook_deliveries d
        WHERE d.endpoint_id = p_endpoint AND d.state = 0 AND d.class = v_class
        ORDER BY d.due_at LIMIT 1;
        v_first := least(v_first, v_due);
    END LOOP;
    RETURN v_first;
END
$$;
