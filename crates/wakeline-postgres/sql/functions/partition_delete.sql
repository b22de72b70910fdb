-- Removes a partition with its messages, also scheduled ones, cursors, traces and dead letters;
-- true if it existed. Its number is never reused, so that a node that still has it cached is
-- refused. Lock order: the queue FOR UPDATE, so that no group is created meanwhile; the partition
-- (waits for pushes); its scheduled messages; its cursors by group.

CREATE OR REPLACE FUNCTION @schema@.partition_delete(p_queue text, p_partition text)
RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
DECLARE
    v_queue integer;
    v_partition bigint;
BEGIN
    SELECT q.queue_id INTO v_queue FROM @schema@.queues q WHERE q.name = p_queue FOR UPDATE;
    SELECT p.partition_id INTO v_partition FROM @schema@.partitions p
    WHERE p.queue_id = v_queue AND p.name = p_partition FOR UPDATE;
    IF v_partition IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM @schema@.scheduled s WHERE s.partition_id = v_partition;
    PERFORM FROM @schema@.cursors c WHERE c.partition_id = v_partition
    ORDER BY c.group_id FOR UPDATE;
    DELETE FROM @schema@.ledger_entries e WHERE e.partition_id = v_partition;
    DELETE FROM @schema@.retries r WHERE r.partition_id = v_partition;
    DELETE FROM @schema@.cursors c WHERE c.partition_id = v_partition;
    DELETE FROM @schema@.segments s WHERE s.partition_id = v_partition;
    DELETE FROM @schema@.traces t WHERE t.partition_id = v_partition;
    DELETE FROM @schema@.dead_letters d WHERE d.partition_id = v_partition;
    DELETE FROM @schema@.partitions p WHERE p.partition_id = v_partition;
    RETURN true;
END
$$;
