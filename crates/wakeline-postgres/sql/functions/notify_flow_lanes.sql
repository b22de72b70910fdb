-- Trigger on flow_lanes, once per statement: a turn became available, or will at a known time.
-- Runs with the rights of its owner.

CREATE OR REPLACE FUNCTION @schema@.notify_flow_lanes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
BEGIN
    PERFORM @schema@.notify_hints('flow', (
        SELECT jsonb_agg(jsonb_build_array(
            jsonb_build_object('turn', x.name), @schema@.notify_due_ms(x.due_at, v_now)))
        FROM (
            SELECT c.name, min(f.due_at) AS due_at
            FROM fresh f
            JOIN @schema@.flow_capabilities c USING (capability_id)
            WHERE f.due_at < 'infinity'
            GROUP BY c.name) x
    ));
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_flow_lanes() FROM PUBLIC;
