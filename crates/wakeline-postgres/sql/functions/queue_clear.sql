-- Removes the messages of some partitions of a queue, those after p_after, or of one: cursors go to
-- the end, leases and parked messages are removed. One step per call: returns the partition after
-- which the next one begins (NULL after the last), and the number of removed messages; no row if
-- the queue or partition does not exist. Lock order: the queue FOR SHARE, partitions by id (waits
-- for pushes), cursors by (partition, group).

CREATE OR REPLACE FUNCTION @schema@.queue_clear(
    p_queue text, p_partition text, p_after bigint, p_dead boolean)
RETURNS TABLE (next_after bigint, gone bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_queue integer;
    v_only bigint;
    v_partitions bigint[];
    v_segments integer;
    v_now timestamptz;
BEGIN
    SELECT q.queue_id INTO v_queue FROM @schema@.queues q WHERE q.name = p_queue FOR SHARE;
    IF v_queue IS NULL THEN
        RETURN;
    END IF;
    IF p_partition IS NOT NULL THEN
        SELECT p.partition_id INTO v_only FROM @schema@.partitions p
        WHERE p.queue_id = v_queue AND p.name = p_partition;
        IF v_only IS NULL THEN
            RETURN;
        END IF;
    END IF;
    IF p_dead THEN
        DELETE FROM @schema@.dead_letters d
        WHERE d.queue_id = v_queue AND (v_only IS NULL OR d.partition_id = v_only);
    END IF;
    SELECT array_agg(l.partition_id) INTO v_partitions FROM (
        SELECT p.partition_id FROM @schema@.partitions p
        WHERE p.queue_id = v_queue AND p.partition_id > greatest(p_after, v_only - 1)
            AND p.partition_id <= coalesce(v_only, 9223372036854775807)
        ORDER BY p.partition_id LIMIT 100 FOR UPDATE) l;
    gone := 0;
    IF v_partitions IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM @schema@.cursors c WHERE c.partition_id = ANY (v_partitions)
    ORDER BY c.partition_id, c.group_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    PERFORM @schema@.ledger_write(c.partition_id, c.group_id, NULL,
        CASE WHEN c.lease_until > v_now THEN c.lease_set END,
        CASE WHEN c.lease_until <= v_now THEN c.lease_set END, least(c.lease_until, v_now))
    FROM @schema@.cursors c
    WHERE c.partition_id = ANY (v_partitions)
        AND c.lease_token IS NOT NULL;
    DELETE FROM @schema@.retries r WHERE r.partition_id = ANY (v_partitions);
    -- Asleep: the partitions are locked here, and the next push sees the mark.
    UPDATE @schema@.partitions p SET idle = true WHERE p.partition_id = ANY (v_partitions);
    UPDATE @schema@.cursors c SET next_offset = p.next_offset, parked = 0, due_at = NULL,
        gaps = NULL,
        lease_token = NULL, lease_until = NULL, lease_start = NULL, lease_set = NULL,
        lease_all = NULL, lease_failed = NULL, lease_expired = NULL, lease_released = NULL
    FROM @schema@.partitions p
    WHERE p.partition_id = ANY (v_partitions) AND c.partition_id = p.partition_id;
    WITH chosen AS (
        SELECT s.partition_id, s.first_offset FROM @schema@.segments s
        WHERE s.partition_id = ANY (v_partitions) LIMIT 5000
    ), went AS (
        DELETE FROM @schema@.segments s USING chosen x
        WHERE s.partition_id = x.partition_id AND s.first_offset = x.first_offset
        RETURNING s.len
    )
    SELECT coalesce(sum(w.len), 0), count(*) INTO gone, v_segments FROM went w;
    DELETE FROM @schema@.traces t WHERE t.partition_id = ANY (v_partitions);
    UPDATE @schema@.partitions p SET gaps = nullif(p.gaps * int8multirange(int8range(coalesce((
        SELECT s.first_offset FROM @schema@.segments s WHERE s.partition_id = p.partition_id
        ORDER BY s.first_offset LIMIT 1), p.next_offset), NULL)), '{}')
    WHERE p.partition_id = ANY (v_partitions) AND p.gaps IS NOT NULL;
    -- The same partitions again, if some of their messages are left.
    next_after := CASE WHEN v_segments < 5000 THEN v_partitions[cardinality(v_partitions)]
        ELSE p_after END;
    RETURN NEXT;
END
$$;
