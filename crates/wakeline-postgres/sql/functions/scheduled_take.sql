-- The first step of a transaction that schedules or cancels: locks the partitions that the
-- transaction will write to, then the timers that it names; removes those that it cancels. Returns
-- a row for each timer to cancel that was found: its index, whether it was removed (otherwise it is
-- due already), and its ids. A timer that is to be replaced and is due already loses its key,
-- because it is about to be delivered. Lock order: partitions by id (waits, by lock_timeout),
-- scheduled messages by id.

CREATE OR REPLACE FUNCTION @schema@.scheduled_take(
    p_partitions bigint[], p_cancel_queues text[], p_cancel_keys text[],
    p_replace_queues text[], p_replace_keys text[])
RETURNS TABLE (ord integer, taken boolean, id uuid, txn_id text, deliver_at timestamptz)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_timers bigint[];
    v_gone bigint[];
BEGIN
    PERFORM FROM @schema@.partitions p WHERE p.partition_id = ANY (p_partitions)
    ORDER BY p.partition_id FOR NO KEY UPDATE;
    SELECT array_agg(k.scheduled_id) INTO v_timers FROM (
        SELECT s.scheduled_id
        FROM unnest(p_cancel_queues || p_replace_queues, p_cancel_keys || p_replace_keys)
            AS x (queue, key)
        JOIN @schema@.queues q ON q.name = x.queue
        JOIN @schema@.scheduled s ON s.queue_id = q.queue_id AND s.timer_key = x.key
        ORDER BY s.scheduled_id FOR UPDATE OF s) k;
    IF v_timers IS NULL THEN
        RETURN;
    END IF;
    v_now := @schema@.clock();
    UPDATE @schema@.scheduled s SET timer_key = NULL
    FROM unnest(p_replace_queues, p_replace_keys) AS x (queue, key)
    JOIN @schema@.queues q ON q.name = x.queue
    WHERE s.queue_id = q.queue_id AND s.timer_key = x.key AND s.deliver_at <= v_now
        AND s.scheduled_id = ANY (v_timers);
    RETURN QUERY
    SELECT x.ord::integer, s.deliver_at > v_now, s.id, s.txn_id::text, s.deliver_at
    FROM unnest(p_cancel_queues, p_cancel_keys) WITH ORDINALITY AS x (queue, key, ord)
    JOIN @schema@.queues q ON q.name = x.queue
    JOIN @schema@.scheduled s ON s.queue_id = q.queue_id AND s.timer_key = x.key
    WHERE s.scheduled_id = ANY (v_timers);
    SELECT array_agg(s.scheduled_id) INTO v_gone
    FROM unnest(p_cancel_queues, p_cancel_keys) AS x (queue, key)
    JOIN @schema@.queues q ON q.name = x.queue
    JOIN @schema@.scheduled s ON s.queue_id = q.queue_id AND s.timer_key = x.key
    WHERE s.deliver_at > v_now AND s.scheduled_id = ANY (v_timers);
    DELETE FROM @schema@.scheduled s WHERE s.scheduled_id = ANY (v_gone);
END
$$;
