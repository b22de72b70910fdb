-- Trigger on hook_deliveries, once per statement: deliveries were added, or their time changed.
-- Claims read the states of endpoints, so these become due with them, which notifies. An endpoint
-- that is held back has something due already, and is left to what holds it. Runs with the rights
-- of its owner. Lock order: endpoints by id, then states by id, after the deliveries that the
-- statement has changed.

CREATE OR REPLACE FUNCTION @schema@.notify_hook_deliveries() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_ids uuid[] := ARRAY(SELECT DISTINCT f.endpoint_id FROM fresh f WHERE f.state = 0);
BEGIN
    IF v_ids = '{}' THEN
        RETURN NULL;
    END IF;
    -- Until the commit no claim makes them sleep again: see the migration hook.
    PERFORM FROM @schema@.hook_endpoints e WHERE e.endpoint_id = ANY (v_ids)
    ORDER BY e.endpoint_id FOR KEY SHARE;
    PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = ANY (v_ids)
    ORDER BY s.endpoint_id FOR NO KEY UPDATE;
    UPDATE @schema@.hook_states s SET fresh = s.fresh OR x.fresh,
        due_at = CASE WHEN s.held = 0 THEN least(s.due_at, x.due_at) ELSE s.due_at END
    FROM (
        SELECT f.endpoint_id, bool_or(f.class IN (0, 3)) AS fresh, min(f.due_at) AS due_at
        FROM fresh f WHERE f.state = 0 GROUP BY f.endpoint_id) x
    WHERE s.endpoint_id = x.endpoint_id;
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_hook_deliveries() FROM PUBLIC;
