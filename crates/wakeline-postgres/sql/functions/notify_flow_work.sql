-- Trigger on flow_work, once per statement: activities became available to the workers that take
-- their tag and know their name, or will at a known time. Runs with the rights of its owner.

CREATE OR REPLACE FUNCTION @schema@.notify_flow_work() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
BEGIN
    PERFORM @schema@.notify_hints('flow', (
        SELECT jsonb_agg(jsonb_build_array(
            -- Without a name a route is its tag, or null.
            jsonb_build_object('work', CASE WHEN x.name IS NULL THEN to_jsonb(x.tag)
                ELSE jsonb_strip_nulls(jsonb_build_object('name', x.name, 'tag', x.tag)) END),
            @schema@.notify_due_ms(x.due_at, v_now)))
        FROM (
            SELECT t.name AS tag, n.name, min(CASE f.state WHEN 0 THEN v_now ELSE f.due_at END)
                AS due_at
            FROM fresh f
            LEFT JOIN @schema@.flow_tags t USING (tag_id)
            LEFT JOIN @schema@.flow_activity_names n USING (name_id)
            WHERE f.state = 0 OR f.due_at < 'infinity'
            GROUP BY 1, 2) x
    ));
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_flow_work() FROM PUBLIC;
