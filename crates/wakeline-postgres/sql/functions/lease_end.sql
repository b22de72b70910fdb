-- Ends leases, sets cursors to their current position (in no gap), and to the time when something
-- is left for them: now, later (a parked message, delay, window), or never (asleep until a push).
-- Returns that per cursor. A time later than now is computed only under a lock of the queue's row
-- that is taken without waiting: otherwise a configure that commits concurrently could leave the
-- cursor due too late. If the lock is not available the cursor stays due, and a claim checks it
-- again. Runs under the cursors' locks. Lock order: tries queues and partitions, never waits.

CREATE OR REPLACE FUNCTION @schema@.lease_end(
    p_partitions bigint[], p_groups integer[], p_nexts bigint[], p_parkeds integer[],
    p_now timestamptz)
RETURNS TABLE (ord integer, due_at timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    v_held integer[];
    v_stable integer[] := '{}';
    v_drained bigint[];
BEGIN
    SELECT array_agg(DISTINCT q.queue_id)
            FILTER (WHERE x.parked > 0 OR q.delay_secs > 0 OR q.window_secs > 0),
        array_agg(x.partition_id)
            FILTER (WHERE p.next_offset <= x.next AND NOT (x.parked > 0 AND q.strict_order))
    INTO v_held, v_drained
    FROM unnest(p_partitions, p_nexts, p_parkeds) AS x (partition_id, next, parked)
    JOIN @schema@.partitions p ON p.partition_id = x.partition_id
    JOIN @schema@.queues q ON q.queue_id = p.queue_id;
    IF v_held IS NOT NULL THEN
        SELECT coalesce(array_agg(l.queue_id), '{}') INTO v_stable FROM (
            SELECT q.queue_id FROM @schema@.queues q WHERE q.queue_id = ANY (v_held)
            FOR SHARE SKIP LOCKED) l;
    END IF;
    IF v_drained IS NOT NULL THEN
        PERFORM @schema@.partition_sleep(v_drained);
    END IF;
    RETURN QUERY
    UPDATE @schema@.cursors c SET next_offset = d.next, parked = d.parked, due_at = d.due_at,
        gaps = d.gaps,
        lease_token = NULL, lease_until = NULL, lease_start = NULL, lease_set = NULL,
        lease_all = NULL, lease_failed = NULL, lease_expired = NULL, lease_released = NULL
    FROM (
        SELECT x.partition_id, x.group_id, x.next, x.parked, x.ord::integer AS ord,
            nullif(p.gaps * int8multirange(int8range(x.next, NULL)), '{}') AS gaps, CASE
            WHEN x.parked = 0 AND p.next_offset <= x.next AND m.marked THEN NULL
            WHEN x.parked = 0 AND q.delay_secs = 0 AND q.window_secs = 0 THEN p_now
            WHEN q.queue_id <> ALL (v_stable) THEN p_now
            WHEN p.next_offset <= x.next AND NOT (x.parked > 0 AND q.strict_order)
                AND NOT m.marked THEN p_now
            ELSE greatest(p_now, @schema@.cursor_due(x.partition_id, x.group_id, x.next, x.parked,
                p.next_offset, p.last_push_at, q.strict_order, q.delay_secs, q.window_secs,
                q.ttl_secs))
            END AS due_at
        FROM unnest(p_partitions, p_groups, p_nexts, p_parkeds)
            WITH ORDINALITY AS x (partition_id, group_id, next, parked, ord)
        JOIN @schema@.partitions p ON p.partition_id = x.partition_id
        JOIN @schema@.queues q ON q.queue_id = p.queue_id
        -- Marked by this transaction, which has held the row since then.
        CROSS JOIN LATERAL (
            SELECT p.idle AND p.xmin = pg_current_xact_id()::xid AS marked) m
    ) d
    WHERE c.partition_id = d.partition_id AND c.group_id = d.group_id
    RETURNING d.ord, c.due_at;
END
$$;
