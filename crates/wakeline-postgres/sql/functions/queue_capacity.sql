-- Returns a queue's capacity for pushes: its limits, and what counts against them. No row if the
-- queue does not exist. The fill level of a partition is that of the group that is furthest behind
-- in it: its unread and unsettled messages (idle groups do not count, see groups_retaining);
-- without any group, all stored messages. Scheduled messages count as well. Nothing is counted without a
-- limit; for the whole queue only cursors that have something to do are read. p_partitions: the
-- partitions whose own messages are counted. Reads only.

CREATE OR REPLACE FUNCTION @schema@.queue_capacity(p_queue text, p_partitions text[])
RETURNS TABLE (
    len_max bigint, partition_len_max bigint, lanes bigint, len bigint, partition_lens bigint[])
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_queue integer;
    v_groups integer[];
BEGIN
    SELECT q.queue_id, q.len_max, q.partition_len_max, q.lanes
    INTO v_queue, len_max, partition_len_max, lanes
    FROM @schema@.queues q WHERE q.name = p_queue;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    len := 0; partition_lens := '{}';
    v_groups := @schema@.groups_retaining(v_queue, @schema@.clock());
    IF len_max > 0 AND v_groups <> '{}' THEN
        SELECT coalesce(sum(x.most), 0)::bigint INTO len FROM (
            SELECT max(@schema@.cursor_lag(c, p.next_offset)) AS most
            FROM unnest(v_groups) AS g (group_id)
            JOIN @schema@.cursors c ON c.group_id = g.group_id AND c.due_at IS NOT NULL
            JOIN @schema@.partitions p ON p.partition_id = c.partition_id
            GROUP BY c.partition_id
        ) x;
    ELSIF len_max > 0 THEN
        SELECT coalesce(sum(
            p.next_offset - f.first - @schema@.gap_len(p.gaps, f.first, NULL)), 0)::bigint
        INTO len FROM @schema@.partitions p CROSS JOIN LATERAL (
            SELECT coalesce((
                SELECT s.first_offset FROM @schema@.segments s
                WHERE s.partition_id = p.partition_id
                ORDER BY s.first_offset LIMIT 1), p.next_offset) AS first) f
        WHERE p.queue_id = v_queue;
    END IF;
    IF len_max > 0 THEN
        len := len + (SELECT count(*) FROM @schema@.scheduled s WHERE s.queue_id = v_queue);
    END IF;
    IF partition_len_max > 0 AND p_partitions <> '{}' THEN
        SELECT array_agg(coalesce(CASE WHEN v_groups <> '{}' THEN (
                SELECT max(@schema@.cursor_lag(c, p.next_offset))
                FROM unnest(v_groups) AS g (group_id)
                JOIN @schema@.cursors c
                    ON c.partition_id = p.partition_id AND c.group_id = g.group_id)
            ELSE (SELECT p.next_offset - f.first - @schema@.gap_len(p.gaps, f.first, NULL) FROM (
                SELECT coalesce((
                    SELECT s.first_offset FROM @schema@.segments s
                    WHERE s.partition_id = p.partition_id
                    ORDER BY s.first_offset LIMIT 1), p.next_offset) AS first) f) END, 0)
            + (SELECT count(*) FROM @schema@.scheduled s WHERE s.partition_id = p.partition_id)
            ORDER BY n.ord)
        INTO partition_lens
        FROM unnest(p_partitions) WITH ORDINALITY AS n (name, ord)
        LEFT JOIN @schema@.partitions p ON p.queue_id = v_queue AND p.name = n.name;
    END IF;
    RETURN NEXT;
END
$$;
