-- Replaces a queue's options; true if the queue exists. Namespace and task stay if they are NULL.
-- Cursors that wait for a later time are set anew: a shorter delay or window, another order may
-- have made something available. Whoever computes such a time holds a lock of the queue's row until
-- its commit, so none is missed.
-- Called by: QueueAdmin::configure. Lock order: the queue, then cursors by (partition, group).

CREATE OR REPLACE FUNCTION @schema@.queue_configure(
    p_queue text, p_namespace text, p_task text, p_lease_secs bigint, p_retry_limit bigint,
    p_retry_delay_ms bigint, p_retry_delay_ms_max bigint, p_retry_exponential boolean,
    p_dead_letters boolean, p_priority integer, p_delay_secs bigint, p_window_secs bigint,
    p_strict_order boolean, p_strict_fencing boolean, p_dedup_window_secs bigint)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_queue integer;
    v_now timestamptz;
BEGIN
    UPDATE @schema@.queues q SET namespace = coalesce(p_namespace, q.namespace),
        task = coalesce(p_task, q.task), lease_secs = p_lease_secs, retry_limit = p_retry_limit,
        retry_delay_ms = p_retry_delay_ms, retry_delay_ms_max = p_retry_delay_ms_max,
        retry_exponential = p_retry_exponential, dead_letters = p_dead_letters,
        priority = p_priority, delay_secs = p_delay_secs, window_secs = p_window_secs,
        strict_order = p_strict_order, strict_fencing = p_strict_fencing,
        dedup_window_secs = p_dedup_window_secs
    WHERE q.name = p_queue RETURNING q.queue_id INTO v_queue;
    IF v_queue IS NULL THEN
        RETURN false;
    END IF;
    v_now := @schema@.clock();
    -- A parked message no longer holds back what is pushed: the next claim puts such a cursor to
    -- sleep anew, so that a push wakes it.
    UPDATE @schema@.cursors c SET due_at = CASE
        WHEN NOT p_strict_order AND c.parked > 0 AND l.log_end <= c.next_offset THEN v_now
        ELSE coalesce(@schema@.cursor_due(c.partition_id, c.group_id, c.next_offset, c.parked,
            l.log_end, l.last_push_at, p_strict_order, p_delay_secs, p_window_secs), v_now) END
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
