-- Changes the named options of a queue; true if the queue exists. Namespace and task stay if they
-- are NULL. Cursors that wait for a later time are updated: a shorter delay or window, or another
-- order, may have made something available. A transaction that computes such a time holds a lock of
-- the queue's row until its commit, so none is missed. p_options: by the names of their columns.
-- Lock order: the queue, its groups, its row in housekeeping, then cursors by (partition, group).

CREATE OR REPLACE FUNCTION @schema@.queue_configure(
    p_queue text, p_namespace text, p_task text, p_options jsonb)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_queue integer;
    v_now timestamptz;
    b @schema@.queues;
    o @schema@.queues;
BEGIN
    SELECT q.* INTO b FROM @schema@.queues q WHERE q.name = p_queue FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_queue := b.queue_id;
    o := jsonb_populate_record(b, p_options);
    UPDATE @schema@.queues q SET namespace = coalesce(p_namespace, q.namespace),
        task = coalesce(p_task, q.task), lease_secs = o.lease_secs, retry_limit = o.retry_limit,
        retry_delay_ms = o.retry_delay_ms, retry_delay_ms_max = o.retry_delay_ms_max,
        retry_exponential = o.retry_exponential, dead_letters = o.dead_letters,
        priority = o.priority, delay_secs = o.delay_secs, window_secs = o.window_secs,
        strict_order = o.strict_order, strict_fencing = o.strict_fencing,
        dedup_window_secs = o.dedup_window_secs, retry_jitter_percent = o.retry_jitter_percent,
        ttl_secs = o.ttl_secs, len_max = o.len_max, partition_len_max = o.partition_len_max,
        retention = o.retention, retention_secs = o.retention_secs,
        completed_retention_secs = o.completed_retention_secs, wait_secs_max = o.wait_secs_max,
        encrypted = o.encrypted, lanes = o.lanes, partition_priorities = o.partition_priorities,
        ledger_secs = o.ledger_secs, group_idle_secs = o.group_idle_secs
    WHERE q.queue_id = v_queue;
    v_now := @schema@.clock();
    -- The time since a group's last poll counts from the change on: the last poll was recorded only
    -- as precisely as the old limit required.
    IF o.group_idle_secs <> b.group_idle_secs THEN
        UPDATE @schema@.groups g SET polled_at = v_now WHERE g.queue_id = v_queue;
    END IF;
    IF o.ttl_secs > 0 OR o.wait_secs_max > 0
        OR (o.retention AND (o.retention_secs > 0 OR o.completed_retention_secs > 0))
    THEN
        INSERT INTO @schema@.housekeeping (queue_id, due_at) VALUES (v_queue, v_now)
        ON CONFLICT (queue_id) DO UPDATE SET due_at = v_now, after_partition = 0, next_at = NULL;
    ELSE
        UPDATE @schema@.housekeeping h SET due_at = NULL WHERE h.queue_id = v_queue;
    END IF;
    -- A parked message no longer blocks later messages: the next claim puts such a cursor to sleep
    -- again, so that a push wakes it.
    UPDATE @schema@.cursors c SET due_at = CASE
        WHEN NOT o.strict_order AND c.parked > 0 AND l.log_end <= c.next_offset THEN v_now
        ELSE coalesce(@schema@.cursor_due(c.partition_id, c.group_id, c.next_offset, c.parked,
            l.log_end, l.last_push_at, o.strict_order, o.delay_secs, o.window_secs, o.ttl_secs),
            v_now) END
    FROM (
        SELECT k.partition_id, k.group_id, p.next_offset AS log_end, p.last_push_at
        FROM @schema@.groups g
        JOIN @schema@.cursors k ON k.group_id = g.group_id AND k.due_at > v_now
        JOIN @schema@.partitions p ON p.partition_id = k.partition_id
        WHERE g.queue_id = v_queue AND k.lease_token IS NULL
        ORDER BY k.partition_id, k.group_id
        FOR NO KEY UPDATE OF k
    ) l
    WHERE c.partition_id = l.partition_id AND c.group_id = l.group_id;
    RETURN true;
END
$$;
