-- Returns, without claiming, the microseconds until each line has something; no row for lines that
-- have nothing. A group that does not exist in a queue yet is treated like one that begins with
-- `all`, so that a waiter whose hint was lost gets its messages. Waiting counts as polling: that is
-- recorded for the groups of these lines from time to time, which is the only write. Lock order:
-- tries groups, never waits.

CREATE OR REPLACE FUNCTION @schema@.sweep(
    p_kinds smallint[], p_queues text[], p_partitions text[], p_namespaces text[], p_tasks text[],
    p_groups text[])
RETURNS TABLE (line integer, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_due timestamptz;
    v_least timestamptz;
    v_polled integer[] := '{}';
    q record;
BEGIN
    FOR v_line IN 1 .. cardinality(p_kinds) LOOP
        v_least := NULL;
        FOR q IN
            SELECT x.*, g.group_id, p.partition_id, g.group_id IS NULL
                OR g.backfilled_to IS NOT NULL AS fresh,
                @schema@.group_poll_due(g.polled_at, g.settled, x.group_idle_secs) AS poll_due
            FROM @schema@.queues x
            LEFT JOIN @schema@.groups g ON g.queue_id = x.queue_id AND g.name = p_groups[v_line]
            LEFT JOIN LATERAL (
                SELECT p.partition_id FROM @schema@.partitions p
                WHERE p.queue_id = x.queue_id AND p.name = p_partitions[v_line] LIMIT 1) p ON true
            WHERE CASE WHEN p_kinds[v_line] < 2 THEN x.name = p_queues[v_line]
                ELSE (p_namespaces[v_line] IS NULL OR x.namespace = p_namespaces[v_line])
                    AND (p_tasks[v_line] IS NULL OR x.task = p_tasks[v_line]) END
        LOOP
            IF q.poll_due <= v_now THEN
                v_polled := v_polled || q.group_id;
            END IF;
            CONTINUE WHEN v_least <= v_now OR (p_kinds[v_line] = 1 AND q.partition_id IS NULL);
            IF q.fresh THEN
                SELECT min(@schema@.log_due(p.partition_id, f.first_offset, p.last_push_at,
                    q.delay_secs, q.window_secs))
                INTO v_due
                FROM @schema@.partitions p
                CROSS JOIN LATERAL (
                    SELECT s.first_offset FROM @schema@.segments s
                    WHERE s.partition_id = p.partition_id ORDER BY s.first_offset LIMIT 1) f
                WHERE p.queue_id = q.queue_id AND p.next_offset > 0
                    AND (p_kinds[v_line] <> 1 OR p.partition_id = q.partition_id);
            ELSE
                v_due := @schema@.group_due(q.group_id,
                    CASE WHEN p_kinds[v_line] = 1 THEN q.partition_id END, v_now);
            END IF;
            IF q.scheduled THEN
                v_due := least(v_due, @schema@.scheduled_next(ARRAY[q.queue_id],
                    CASE WHEN p_kinds[v_line] = 1 THEN q.partition_id END));
            END IF;
            v_least := least(v_least, v_due);
        END LOOP;
        IF v_least IS NOT NULL THEN
            line := v_line;
            due_us := ceil(greatest(extract(epoch FROM v_least - v_now), 0) * 1000000)::bigint;
            RETURN NEXT;
        END IF;
    END LOOP;
    IF v_polled <> '{}' THEN
        PERFORM @schema@.group_polled(v_polled, v_now);
    END IF;
END
$$;
