-- Trigger on flow_instances, once per statement that changes some: waiters for the outcome, the
-- status or the key-value state of an instance read it again.

CREATE OR REPLACE FUNCTION @schema@.notify_flow_instances() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @schema@.notify_hints('flow', (
        SELECT jsonb_agg(jsonb_build_array(jsonb_build_object('outcome', f.instance), 0))
        FROM fresh f
    ));
    RETURN NULL;
END
$$;
