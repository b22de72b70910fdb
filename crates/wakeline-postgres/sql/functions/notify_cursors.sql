-- Trigger on cursors, once per statement: something became available by other means than a push, or
-- will at a known time (an ended lease, a retry, a seek, changed options). Leases are not notified
-- here: the notifier does that, once per half lease. Runs with the rights of its owner.

CREATE OR REPLACE FUNCTION @schema@.notify_cursors() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_changes jsonb;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT jsonb_agg(DISTINCT jsonb_build_object(
            'q', q.name, 'p', p.name, 's', q.namespace, 't', q.task, 'g', g.name,
            'd', @schema@.notify_due_ms(f.due_at, v_now)))
        INTO v_changes
        FROM fresh f
        JOIN @schema@.partitions p USING (partition_id)
        JOIN @schema@.queues q USING (queue_id)
        JOIN @schema@.groups g USING (group_id)
        WHERE f.due_at < 'infinity' AND f.lease_token IS NULL;
    ELSE
        SELECT jsonb_agg(DISTINCT jsonb_build_object(
            'q', q.name, 'p', p.name, 's', q.namespace, 't', q.task, 'g', g.name,
            'd', @schema@.notify_due_ms(f.due_at, v_now)))
        INTO v_changes
        FROM fresh f
        JOIN stale o USING (partition_id, group_id)
        JOIN @schema@.partitions p USING (partition_id)
        JOIN @schema@.queues q USING (queue_id)
        JOIN @schema@.groups g USING (group_id)
        WHERE f.due_at < 'infinity' AND f.lease_token IS NULL
            AND f.due_at IS DISTINCT FROM o.due_at;
    END IF;
    PERFORM @schema@.notify_changes(v_changes);
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_cursors() FROM PUBLIC;
