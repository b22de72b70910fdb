-- Notifies all nodes of some changes of queues. See notify_hints.

CREATE OR REPLACE FUNCTION @schema@.notify_changes(p_changes jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @schema@.notify_hints('changed', jsonb_strip_nulls(p_changes));
END
$$;
