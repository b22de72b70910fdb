-- Creates the group of a line in the queues that it matches, one step per call and transaction;
-- true when everything is done. A step creates the group in one queue, or cursors for up to 2,000
-- of its partitions; backfilled_to is where the next step, of whatever node, continues. A
-- subscription other than `all` is recorded if its queue does not exist, or if it may match queues
-- that are created later. p_kind: 0 queue, 1 partition, 2 namespace and task. p_mode: 0 all, 1 new,
-- 2 from p_from. Lock order: catalog FOR UPDATE, the queue FOR UPDATE, the group; inserts cursors;
-- tries partitions.

CREATE OR REPLACE FUNCTION @schema@.group_begin(
    p_kind smallint, p_queue text, p_namespace text, p_task text, p_group text, p_mode smallint,
    p_from timestamptz)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_now timestamptz;
    v_queue integer;
    v_fresh boolean := false;
    g @schema@.groups;
    v_last bigint;
    v_drained bigint[];
BEGIN
    IF p_mode <> 0 AND (p_kind = 2
        OR NOT EXISTS (SELECT FROM @schema@.queues q WHERE q.name = p_queue))
    THEN
        PERFORM FROM @schema@.catalog FOR UPDATE;
        IF p_kind = 2 OR NOT EXISTS (SELECT FROM @schema@.queues q WHERE q.name = p_queue) THEN
            INSERT INTO @schema@.subscriptions
                (group_name, queue, namespace, task, mode, from_at, created_at)
            VALUES (p_group, CASE WHEN p_kind < 2 THEN p_queue END, p_namespace, p_task, p_mode,
                p_from, @schema@.clock())
            ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    SELECT q.queue_id INTO v_queue FROM @schema@.queues q
    LEFT JOIN @schema@.groups x ON x.queue_id = q.queue_id AND x.name = p_group
    WHERE (x.group_id IS NULL OR x.backfilled_to IS NOT NULL)
        AND CASE WHEN p_kind < 2 THEN q.name = p_queue
            ELSE (p_namespace IS NULL OR q.namespace = p_namespace)
                AND (p_task IS NULL OR q.task = p_task) END
    ORDER BY q.queue_id LIMIT 1;
    IF v_queue IS NULL THEN
        RETURN true;
    END IF;
    PERFORM FROM @schema@.queues q WHERE q.queue_id = v_queue FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_now := @schema@.clock();
    PERFORM @schema@.groups_resume(ARRAY[v_queue], v_now);
    INSERT INTO @schema@.groups (queue_id, name, mode, from_at, created_at, backfilled_to, polled_at,
        settled)
    VALUES (v_queue, p_group, p_mode, p_from, v_now, 0, v_now, false)
    ON CONFLICT (queue_id, name) DO NOTHING;
    v_fresh := FOUND;
    SELECT x.* INTO g FROM @schema@.groups x
    WHERE x.queue_id = v_queue AND x.name = p_group FOR UPDATE;
    IF g.backfilled_to IS NULL THEN
        RETURN false;
    END IF;
    WITH chunk AS (
        SELECT p.partition_id, p.next_offset, p.last_push_at, p.gaps, CASE
            WHEN g.mode = 0 THEN coalesce((SELECT s.first_offset FROM @schema@.segments s
                WHERE s.partition_id = p.partition_id
                ORDER BY s.first_offset LIMIT 1), p.next_offset)
            -- Later steps use the time: messages that were pushed since the first step are new.
            WHEN g.mode = 1 AND v_fresh THEN p.next_offset
            WHEN g.mode = 1 THEN @schema@.offset_since(p.partition_id, p.next_offset, g.created_at)
            ELSE @schema@.offset_since(p.partition_id, p.next_offset, g.from_at)
            END AS start
        FROM @schema@.partitions p
        WHERE p.queue_id = v_queue AND p.partition_id > g.backfilled_to
        ORDER BY p.partition_id LIMIT 2000
    ), made AS (
        INSERT INTO @schema@.cursors AS c (partition_id, group_id, next_offset, gaps, due_at)
        SELECT x.partition_id, g.group_id, x.start,
            nullif(x.gaps * int8multirange(int8range(x.start, NULL)), '{}'),
            CASE WHEN x.next_offset > x.start
            THEN @schema@.log_due(
                x.partition_id, x.start, x.last_push_at, q.delay_secs, q.window_secs)
            ELSE v_now END
        FROM chunk x JOIN @schema@.queues q ON q.queue_id = v_queue
        ON CONFLICT (partition_id, group_id) DO NOTHING
    )
    SELECT max(x.partition_id),
        array_agg(x.partition_id) FILTER (WHERE x.next_offset <= x.start)
    INTO v_last, v_drained FROM chunk x;
    UPDATE @schema@.groups x SET backfilled_to = CASE WHEN EXISTS (
        SELECT FROM @schema@.partitions p WHERE p.queue_id = v_queue AND p.partition_id > v_last
    ) THEN v_last END WHERE x.group_id = g.group_id;
    UPDATE @schema@.cursors c SET due_at = NULL
    FROM @schema@.partition_sleep(v_drained) s, unnest(s.o_partitions, s.o_ends) AS y (p, last)
    WHERE c.partition_id = y.p AND c.group_id = g.group_id AND y.last <= c.next_offset;
    RETURN false;
END
$$;
