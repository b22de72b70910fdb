-- Trigger on segments, once per statement: messages were stored.

CREATE OR REPLACE FUNCTION @schema@.notify_segments() RETURNS trigger
LANGUAGE plpgsql AS $$
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
