-- Executes a batch of housekeeping in one short transaction: sums up losses, removes up to p_rows
-- entries of the ledger that have expired and as many statistics that are older than p_stats_keep
-- (microseconds; NULL: none), and continues with the queue that has been due for longest, at most
-- p_rows segments, 500 partitions, and cursors of 100 of them. One node at a time, by an advisory
-- lock; it waits for no lock. p_interval: after a queue was completed, it is skipped for at least
-- this many microseconds, and for a tenth of its shortest limit, up to an hour. p_anew: restart
-- with all queues. Returns one row of kind 0: a = removed messages, due_us = when to call again;
-- rows of kind 1: what a queue's groups lost, a expired, b evicted, c dropped; rows of kind 2:
-- partitions in which a cursor changed. Lock order: the advisory lock, the queue's row in
-- housekeeping and the queue FOR SHARE, all without waiting; then see partition_keep. At the end
-- rows of housekeeping, which configure and delete hold briefly.

CREATE OR REPLACE FUNCTION @schema@.housekeep(
    p_rows integer, p_interval bigint, p_anew boolean, p_stats_keep bigint)
RETURNS TABLE (
    kind smallint, queue text, partition text, namespace text, task text, a bigint, b bigint,
    due_us bigint, c bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    h @schema@.housekeeping;
    q @schema@.queues;
    g record;
    p record;
    k record;
    v_age interval;
    v_completed interval;
    v_shortest interval;
    v_left integer := p_rows;
    v_locked integer := 0;
    v_looked integer := 0;
    v_removed bigint := 0;
    v_again boolean := false;
    v_forgot integer;
    v_next timestamptz;
BEGIN
    kind := 0; a := 0; due_us := 1000000;
    IF NOT pg_try_advisory_xact_lock(hashtext('@schema@.housekeeping'), 0) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_now := @schema@.clock();
    IF p_anew THEN
        UPDATE @schema@.housekeeping x SET due_at = v_now, after_partition = 0, next_at = NULL
        WHERE x.due_at IS NOT NULL;
    END IF;
    SELECT x.* INTO h FROM @schema@.housekeeping x WHERE x.due_at <= v_now
    ORDER BY x.due_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF h.queue_id IS NOT NULL THEN
        SELECT x.* INTO q FROM @schema@.queues x WHERE x.queue_id = h.queue_id
        FOR SHARE SKIP LOCKED;
        SELECT count(*) AS groups, coalesce(bool_or(x.backfilled_to IS NOT NULL), false) AS begins,
            @schema@.groups_retaining(q.queue_id, v_now) AS holding
        INTO g FROM @schema@.groups x WHERE x.queue_id = q.queue_id;
        -- Another transaction is changing it, or a group is being created: cursors may be missing.
        IF q.queue_id IS NULL OR g.begins THEN
            UPDATE @schema@.housekeeping x SET due_at = v_now + interval '1 second'
            WHERE x.queue_id = h.queue_id;
        ELSE
            v_completed := CASE WHEN q.retention AND q.completed_retention_secs > 0
                THEN make_interval(secs => q.completed_retention_secs) END;
            v_age := least(
                CASE WHEN q.ttl_secs > 0 THEN make_interval(secs => q.ttl_secs) END,
                CASE WHEN q.retention AND q.retention_secs > 0
                    THEN make_interval(secs => q.retention_secs) END);
            v_shortest := least(v_age, v_completed,
                CASE WHEN q.wait_secs_max > 0 THEN make_interval(secs => q.wait_secs_max) END);
            FOR p IN SELECT x.partition_id, x.name, x.next_offset FROM @schema@.partitions x
                WHERE x.queue_id = q.queue_id AND x.partition_id > h.after_partition
                ORDER BY x.partition_id LIMIT 500
            LOOP
                SELECT x.* INTO k FROM @schema@.partition_keep(p.partition_id, p.next_offset, q,
                    g.groups, g.holding, v_left, v_shortest, v_age, v_completed, v_now) x;
                v_looked := v_looked + 1;
                v_left := v_left - k.o_rows; v_removed := v_removed + k.o_removed;
                v_locked := v_locked + k.o_locked::integer;
                IF k.o_changed THEN
                    kind := 2; queue := q.name; partition := p.name;
                    namespace := q.namespace; task := q.task;
                    RETURN NEXT;
                END IF;
                v_again := k.o_more;
                EXIT WHEN v_again;
                h.after_partition := p.partition_id;
                h.next_at := least(h.next_at, k.o_first + v_shortest);
                v_again := v_left <= 0 OR v_locked >= 100;
                EXIT WHEN v_again;
            END LOOP;
            IF v_again OR v_looked = 500 THEN
                UPDATE @schema@.housekeeping x
                SET after_partition = h.after_partition, next_at = h.next_at
                WHERE x.queue_id = h.queue_id;
            ELSE
                UPDATE @schema@.housekeeping x SET after_partition = 0, next_at = NULL,
                    due_at = greatest(coalesce(h.next_at, v_now + v_shortest), v_now + greatest(
                        p_interval * interval '1 microsecond',
                        least(v_shortest / 10, interval '1 hour')))
                WHERE x.queue_id = h.queue_id;
            END IF;
        END IF;
    END IF;
    RETURN QUERY
    WITH removed AS (
        DELETE FROM @schema@.losses l USING (
            SELECT x.loss_id FROM @schema@.losses x ORDER BY x.loss_id LIMIT 5000) x
        WHERE l.loss_id = x.loss_id RETURNING l.queue_id, l.expired, l.evicted, l.dropped
    ), sums AS (
        SELECT x.queue_id, x.name, x.namespace, x.task, sum(t.expired)::bigint AS expired,
            sum(t.evicted)::bigint AS evicted, sum(t.dropped)::bigint AS dropped
        FROM removed t JOIN @schema@.queues x ON x.queue_id = t.queue_id
        GROUP BY x.queue_id
    ), kept AS (
        INSERT INTO @schema@.housekeeping AS y (queue_id, expired, evicted, dropped)
        SELECT s.queue_id, s.expired, s.evicted, s.dropped FROM sums s
        ON CONFLICT (queue_id) DO UPDATE
        SET expired = y.expired + excluded.expired, evicted = y.evicted + excluded.evicted,
            dropped = y.dropped + excluded.dropped
    )
    SELECT 1::smallint, s.name, NULL::text, s.namespace, s.task, s.expired, s.evicted,
        NULL::bigint, s.dropped
    FROM sums s;
    DELETE FROM @schema@.ledger_entries e USING (
        SELECT x.ctid AS tid FROM @schema@.ledger_entries x WHERE x.expires_at <= v_now
        ORDER BY x.expires_at LIMIT p_rows FOR UPDATE SKIP LOCKED
    ) o WHERE e.ctid = o.tid;
    GET DIAGNOSTICS v_forgot = ROW_COUNT;
    IF p_stats_keep IS NOT NULL THEN
        v_forgot := greatest(v_forgot, @schema@.stats_forget(
            v_now - p_stats_keep * interval '1 microsecond', p_rows));
    END IF;
    kind := 0; queue := NULL; partition := NULL; namespace := NULL; task := NULL;
    a := v_removed; b := NULL;
    SELECT x.due_at INTO v_next FROM @schema@.housekeeping x WHERE x.due_at IS NOT NULL
    ORDER BY x.due_at LIMIT 1;
    v_next := least(v_next, (
        SELECT greatest(x.expires_at, v_now + p_interval * interval '1 microsecond')
        FROM @schema@.ledger_entries x WHERE x.expires_at > v_now
        ORDER BY x.expires_at LIMIT 1));
    IF v_forgot >= p_rows
        OR (SELECT count(*) FROM (SELECT FROM @schema@.losses LIMIT 5000) x) = 5000
    THEN
        v_next := v_now;
    END IF;
    due_us := CASE WHEN v_next IS NOT NULL
        THEN greatest(ceil(extract(epoch FROM v_next - v_now) * 1000000), 0)::bigint END;
    RETURN NEXT;
END
$$;
