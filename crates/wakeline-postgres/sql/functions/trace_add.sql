-- Adds a trace to the newest message of a transaction id in a partition. Returns 0 if it is stored,
-- 1 if the message does not exist, 2 if it has p_most traces, 3 if the queue is encrypted and the
-- data are not (p_sealed). Lock order: the queue FOR SHARE, so that its encryption does not change;
-- the message's segment, so that it is not removed meanwhile, and traces are counted one by one.

CREATE OR REPLACE FUNCTION @schema@.trace_add(
    p_partition bigint, p_txn text, p_id uuid, p_event text, p_group text, p_worker text,
    p_names text[], p_data bytea, p_sealed boolean, p_most integer)
RETURNS smallint
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
DECLARE
    v_encrypted boolean;
    v_first bigint;
    v_offset bigint;
    v_number bigint;
BEGIN
    SELECT q.encrypted INTO v_encrypted FROM @schema@.partitions p
    JOIN @schema@.queues q ON q.queue_id = p.queue_id
    WHERE p.partition_id = p_partition FOR SHARE OF q;
    -- Repeated if a message of that segment is deleted concurrently.
    LOOP
        SELECT s.first_offset, s.first_offset + t.n - 1 INTO v_first, v_offset
        FROM (
            SELECT g.first_offset, g.txn_ids FROM @schema@.segments g
            WHERE g.partition_id = p_partition AND g.txn_ids @> ARRAY[p_txn]
            ORDER BY g.first_offset DESC LIMIT 1) s
        CROSS JOIN LATERAL (
            SELECT x.n FROM unnest(s.txn_ids) WITH ORDINALITY AS x (txn, n)
            WHERE x.txn = p_txn ORDER BY x.n DESC LIMIT 1) t;
        EXIT WHEN v_first IS NULL;
        PERFORM FROM @schema@.segments g
        WHERE g.partition_id = p_partition AND g.first_offset = v_first
            AND g.txn_ids[(v_offset - v_first)::integer + 1] = p_txn FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    IF v_first IS NULL OR v_encrypted IS NULL THEN
        RETURN 1;
    ELSIF v_encrypted AND NOT p_sealed THEN
        RETURN 3;
    END IF;
    IF (SELECT count(*) FROM @schema@.traces t WHERE t.partition_id = p_partition
        AND t.message_offset = v_offset) >= p_most
    THEN
        RETURN 2;
    END IF;
    INSERT INTO @schema@.traces (trace_id, partition_id, message_offset, event_type, group_name,
        worker, data, created_at)
    VALUES (p_id, p_partition, v_offset, p_event, p_group, p_worker, p_data, @schema@.clock())
    RETURNING trace_no INTO v_number;
    INSERT INTO @schema@.trace_names (name, trace_no)
    SELECT DISTINCT x, v_number FROM unnest(p_names) AS x;
    RETURN 0;
END
$$;
