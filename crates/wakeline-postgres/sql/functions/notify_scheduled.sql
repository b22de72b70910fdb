-- Trigger on scheduled, once per statement: a message gets its offset at a known time.
-- Runs with the rights of its owner.

CREATE OR REPLACE FUNCTION @schema@.notify_scheduled() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
BEGIN
    PERFORM @schema@.notify_changes((
        SELECT jsonb_agg(jsonb_build_object(
            'q', x.queue, 'p', x.partition, 's', x.namespace, 't', x.task,
            'd', @schema@.notify_due_ms(x.due_at, v_now)))
        FROM (
            SELECT q.name AS queue, p.name AS partition, q.namespace, q.task,
                min(f.deliver_at) AS due_at
            FROM fresh f
            JOIN @schema@.partitions p USING (partition_id)
            JOIN @schema@.queues q ON q.queue_id = f.queue_id
            WHERE f.deliver_at < 'infinity' AND NOT f.held
            GROUP BY 1, 2, 3, 4) x
    ));
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_scheduled() FROM PUBLIC;
