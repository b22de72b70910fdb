-- Deletes a message, the newest of a transaction id in its partition, for all groups, present and
-- future: it leaves a gap in the log. Its segment is replaced by the parts before and after it, its
-- parked entries and traces are removed, and its lease no longer holds it: a lease that held
-- nothing else ends. Dead letters own their data, and stay. Returns one row without a group, with
-- outcome 0 done or 1 no such message; then one for each group that was blocked by it, or freed,
-- with the time until something can be taken. Lock order: the queue FOR SHARE, so that no group is
-- created or moved; the partition (waits for pushes); its cursors by group; the segment. So
-- segments and gaps do not change for a transaction that holds a cursor.

CREATE OR REPLACE FUNCTION @schema@.message_delete(p_partition bigint, p_txn text)
RETURNS TABLE (
    outcome smallint, queue text, partition text, namespace text, task text, group_name text,
    due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_first bigint;
    v_offset bigint;
    v_n integer;
    v_gone int8multirange;
    v_gaps int8multirange;
    s @schema@.segments;
    c @schema@.cursors;
    v_held boolean;
    v_live boolean;
    v_count integer;
    x_group integer[] := '{}';
    x_next bigint[] := '{}';
    x_parked integer[] := '{}';
BEGIN
    outcome := 1;
    SELECT q.name, p.name, q.namespace, q.task INTO queue, partition, namespace, task
    FROM @schema@.partitions p JOIN @schema@.queues q ON q.queue_id = p.queue_id
    WHERE p.partition_id = p_partition FOR SHARE OF q;
    PERFORM FROM @schema@.partitions p WHERE p.partition_id = p_partition FOR NO KEY UPDATE;
    PERFORM FROM @schema@.cursors k WHERE k.partition_id = p_partition
    ORDER BY k.partition_id, k.group_id FOR NO KEY UPDATE;
    SELECT g.first_offset INTO v_first FROM @schema@.partitions p
    CROSS JOIN LATERAL (
        SELECT g.first_offset FROM @schema@.segments g
        WHERE g.partition_id = p.partition_id AND g.txn_ids @> ARRAY[p_txn]
        ORDER BY g.first_offset DESC LIMIT 1) g
    WHERE p.partition_id = p_partition;
    -- In a queue without groups, retention may remove it at this moment.
    DELETE FROM @schema@.segments g
    WHERE g.partition_id = p_partition AND g.first_offset = v_first RETURNING g.* INTO s;
    IF s.partition_id IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_now := @schema@.clock();
    SELECT t.n INTO v_n FROM unnest(s.txn_ids) WITH ORDINALITY AS t (txn, n)
    WHERE t.txn = p_txn ORDER BY t.n DESC LIMIT 1;
    v_offset := s.first_offset + v_n - 1;
    v_gone := int8multirange(int8range(v_offset, v_offset + 1));
    INSERT INTO @schema@.segments (partition_id, first_offset, len, created_at, ids, ends, txn_ids,
        trace_ids, producers, body)
    SELECT s.partition_id, s.first_offset + x.first - 1, x.last - x.first + 1, s.created_at,
        s.ids[x.first:x.last],
        ARRAY(SELECT e - x.body_start
            FROM unnest(s.ends[x.first:x.last]) WITH ORDINALITY AS y (e, n) ORDER BY n),
        s.txn_ids[x.first:x.last], s.trace_ids[x.first:x.last], s.producers[x.first:x.last],
        substring(s.body FROM x.body_start + 1
            FOR greatest(s.ends[x.last] - x.body_start, 0))
    FROM (VALUES (1, v_n - 1, 0), (v_n + 1, s.len, greatest(s.ends[v_n], 0)))
        AS x (first, last, body_start)
    WHERE x.first <= x.last;
    UPDATE @schema@.partitions p SET gaps = coalesce(p.gaps, '{}') + v_gone
    WHERE p.partition_id = p_partition RETURNING p.gaps INTO v_gaps;
    DELETE FROM @schema@.traces t
    WHERE t.partition_id = p_partition AND t.message_offset = v_offset;
    outcome := 0;
    RETURN NEXT;
    FOR c IN SELECT k.* FROM @schema@.cursors k WHERE k.partition_id = p_partition
        ORDER BY k.group_id
    LOOP
        v_held := coalesce(c.lease_set @> v_offset, false);
        v_live := coalesce(c.lease_until > v_now, false);
        DELETE FROM @schema@.retries r WHERE r.partition_id = p_partition
            AND r.group_id = c.group_id AND r.message_offset = v_offset;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        CONTINUE WHEN NOT v_held AND v_count = 0 AND v_offset < c.next_offset;
        IF (c.lease_token IS NULL AND (v_count > 0 OR v_offset = c.next_offset))
            OR c.lease_set = v_gone
        THEN
            IF v_held THEN
                PERFORM @schema@.ledger_write(p_partition, c.group_id, NULL,
                    CASE WHEN v_live THEN v_gone END, CASE WHEN NOT v_live THEN v_gone END,
                    least(c.lease_until, v_now));
            END IF;
            x_group := x_group || c.group_id;
            x_next := x_next || @schema@.gap_end(v_gaps, c.next_offset);
            x_parked := x_parked || c.parked - v_count;
            CONTINUE;
        END IF;
        UPDATE @schema@.cursors k SET parked = c.parked - v_count,
            next_offset = @schema@.gap_end(v_gaps, c.next_offset),
            gaps = nullif(v_gaps * int8multirange(
                int8range(@schema@.gap_end(v_gaps, c.next_offset), NULL)), '{}'),
            lease_set = c.lease_set - v_gone,
            lease_all = CASE WHEN v_held THEN coalesce(c.lease_all, c.lease_set)
                ELSE c.lease_all END,
            lease_released = CASE WHEN v_held AND v_live
                THEN coalesce(c.lease_released, '{}') + v_gone ELSE c.lease_released END,
            lease_expired = CASE WHEN v_held AND NOT v_live
                THEN coalesce(c.lease_expired, '{}') + v_gone ELSE c.lease_expired END
        WHERE k.partition_id = p_partition AND k.group_id = c.group_id;
    END LOOP;
    FOR group_name, due_us IN
        SELECT g.name, greatest(ceil(extract(epoch FROM e.due_at - v_now) * 1000000), 0)::bigint
        FROM @schema@.lease_end(array_fill(p_partition, ARRAY[cardinality(x_group)]), x_group,
            x_next, x_parked, v_now) e
        JOIN @schema@.groups g ON g.group_id = x_group[e.ord]
        WHERE e.due_at IS NOT NULL ORDER BY e.ord
    LOOP
        RETURN NEXT;
    END LOOP;
    UPDATE @schema@.partitions p SET gaps = nullif(p.gaps * int8multirange(int8range(coalesce((
        SELECT g.first_offset FROM @schema@.segments g WHERE g.partition_id = p_partition
        ORDER BY g.first_offset LIMIT 1), p.next_offset), NULL)), '{}')
    WHERE p.partition_id = p_partition;
END
$$;
