-- Makes the endpoints of some deliveries due for what waits for them now. Returns them, and the
-- microseconds until they are due. Lock order: states by id; then endpoints, without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_wake(p_deliveries bigint[], p_now timestamptz)
RETURNS TABLE (endpoint uuid, pull boolean, due_us bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
BEGIN
    SELECT array_agg(DISTINCT d.endpoint_id) INTO v_ids FROM @schema@.hook_deliveries d
    WHERE d.delivery_id = ANY (p_deliveries);
    PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_ids)
    ORDER BY s.endpoint_id FOR NO KEY UPDATE;
    RETURN QUERY
    SELECT s.endpoint_id, s.pull,
        @schema@.hook_until(x.due, p_now)
    FROM (SELECT x.id, @schema@.hook_endpoint_wake(x.id, p_now) AS due
        FROM unnest(v_ids) AS x (id)) x
    JOIN @schema@.hook_states s ON s.endpoint_id = x.id
    WHERE x.due IS NOT NULL AND s.disabled IS NULL;
END
$$;
