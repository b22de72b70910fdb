-- Makes sleeping cursors due in partitions to which something was pushed. It is a statement of its
-- own, after the one that locked the partitions: only a new snapshot surely sees cursors that fell
-- asleep just before (they need the partition's lock for that). A cursor that a parked message
-- blocks in strict order gains nothing from a push. p_waits: how long delay and window hold a new
-- message back. These times count only under a lock of the queue's row, which is taken without
-- waiting: a configure that commits concurrently would otherwise leave cursors due too late. Lock
-- order: cursors by (partition, group), under their partitions; tries queues.

CREATE OR REPLACE FUNCTION @schema@.cursor_wake(
    p_partitions bigint[], p_queues integer[], p_waits bigint[], p_stricts boolean[])
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
BEGIN
    IF 0 < ANY (p_waits) THEN
        SELECT array_agg(coalesce(l.wait, 0) ORDER BY x.ord) INTO p_waits
        FROM unnest(p_queues) WITH ORDINALITY AS x (queue_id, ord)
        LEFT JOIN LATERAL (
            SELECT greatest(q.delay_secs, q.window_secs) AS wait FROM @schema@.queues q
            WHERE q.queue_id = x.queue_id FOR SHARE SKIP LOCKED
        ) l ON true;
    END IF;
    v_now := @schema@.clock();
    UPDATE @schema@.cursors c SET due_at = l.due_at
    FROM (
        SELECT k.partition_id, k.group_id, v_now + make_interval(secs => w.wait) AS due_at
        FROM unnest(p_partitions, p_waits, p_stricts) AS w (partition_id, wait, strict)
        JOIN @schema@.cursors k ON k.partition_id = w.partition_id
        WHERE k.due_at IS NULL
            OR (k.lease_token IS NULL AND k.due_at > v_now + make_interval(secs => w.wait)
                AND NOT (w.strict AND k.parked > 0))
        ORDER BY k.partition_id, k.group_id
        FOR NO KEY UPDATE OF k
    ) l
    WHERE c.partition_id = l.partition_id AND c.group_id = l.group_id;
END
$$;
