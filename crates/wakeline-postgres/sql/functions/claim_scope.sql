-- Returns the groups (one per queue) that a line reads, and the partition if the line names one.
-- o_windowed: some of the queues have a window. o_ranked: some have priorities of partitions.
-- o_begin: in some queue the group has to be created, or its subscription to be recorded, first.
-- o_scheduled: the queues in which messages may be scheduled. o_polled: the groups for which a poll
-- is to be recorded. Reads only.

CREATE OR REPLACE FUNCTION @schema@.claim_scope(
    p_kind smallint, p_queue text, p_partition text, p_namespace text, p_task text, p_group text,
    p_mode smallint, OUT o_begin boolean, OUT o_partition bigint, OUT o_groups integer[],
    OUT o_queues integer[], OUT o_priorities integer[], OUT o_windowed boolean,
    OUT o_ranked boolean, OUT o_scheduled integer[], OUT o_polled integer[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_queue integer;
    v_group integer;
    v_known boolean;
    v_priority integer;
    v_scheduled boolean;
BEGIN
    o_begin := false; o_groups := '{}'; o_queues := '{}'; o_priorities := '{}';
    o_scheduled := '{}'; o_polled := '{}';
    IF p_kind = 2 THEN
        SELECT coalesce(bool_or(g.group_id IS NULL OR g.backfilled_to IS NOT NULL), false),
            coalesce(array_agg(g.group_id) FILTER (WHERE g.group_id IS NOT NULL), '{}'),
            coalesce(array_agg(q.queue_id) FILTER (WHERE g.group_id IS NOT NULL), '{}'),
            coalesce(array_agg(q.priority) FILTER (WHERE g.group_id IS NOT NULL), '{}'),
            coalesce(bool_or(q.window_secs > 0), false),
            coalesce(bool_or(q.partition_priorities <> '{}'), false),
            coalesce(array_agg(q.queue_id) FILTER (WHERE q.scheduled), '{}'),
            coalesce(array_agg(g.group_id) FILTER (WHERE @schema@.group_poll_due(
                g.polled_at, g.settled, q.group_idle_secs) <= v_now), '{}')
        INTO o_begin, o_groups, o_queues, o_priorities, o_windowed, o_ranked, o_scheduled, o_polled
        FROM @schema@.queues q
        LEFT JOIN @schema@.groups g ON g.queue_id = q.queue_id AND g.name = p_group
        WHERE (p_namespace IS NULL OR q.namespace = p_namespace)
            AND (p_task IS NULL OR q.task = p_task);
    ELSE
        SELECT q.queue_id, q.priority, q.window_secs > 0, q.partition_priorities <> '{}',
            g.group_id, g.backfilled_to IS NULL, q.scheduled,
            CASE WHEN @schema@.group_poll_due(g.polled_at, g.settled, q.group_idle_secs) <= v_now
                THEN ARRAY[g.group_id] ELSE '{}' END
        INTO v_queue, v_priority, o_windowed, o_ranked, v_group, v_known, v_scheduled, o_polled
        FROM @schema@.queues q
        LEFT JOIN @schema@.groups g ON g.queue_id = q.queue_id AND g.name = p_group
        WHERE q.name = p_queue;
        IF v_scheduled THEN
            o_scheduled := ARRAY[v_queue];
        END IF;
        IF p_kind = 1 AND (v_group IS NOT NULL OR v_scheduled) THEN
            SELECT p.partition_id INTO o_partition FROM @schema@.partitions p
            WHERE p.queue_id = v_queue AND p.name = p_partition;
        END IF;
        o_begin := v_queue IS NOT NULL AND (v_group IS NULL OR NOT v_known);
        IF v_group IS NOT NULL AND (p_kind = 0 OR o_partition IS NOT NULL) THEN
            o_groups := ARRAY[v_group]; o_queues := ARRAY[v_queue];
            o_priorities := ARRAY[v_priority];
        END IF;
    END IF;
    IF p_mode <> 0 AND NOT o_begin AND (p_kind = 2 OR v_queue IS NULL) THEN
        o_begin := NOT EXISTS (
            SELECT FROM @schema@.subscriptions s
            WHERE s.group_name = p_group
                AND s.queue IS NOT DISTINCT FROM CASE WHEN p_kind = 2 THEN NULL ELSE p_queue END
                AND s.namespace IS NOT DISTINCT FROM p_namespace
                AND s.task IS NOT DISTINCT FROM p_task);
    END IF;
END
$$;
