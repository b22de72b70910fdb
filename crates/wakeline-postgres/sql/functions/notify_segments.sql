-- Trigger on segments, once per statement: messages were stored. Runs with the rights of its
-- owner.

CREATE OR REPLACE FUNCTION @schema@.notify_segments() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @schema@.notify_changes((
        SELECT jsonb_agg(DISTINCT jsonb_build_object(
            'q', q.name, 'p', p.name, 's', q.namespace, 't', q.task))
        FROM fresh f
        JOIN @schema@.partitions p USING (partition_id)
        JOIN @schema@.queues q USING (queue_id)
    ));
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_segments() FROM PUBLIC;
