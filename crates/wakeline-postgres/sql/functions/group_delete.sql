-- Deletes a group in one queue, or in all if p_queue is NULL: cursors, parked messages, leases and
-- recorded subscriptions. Dead letters stay. Returns a row per queue in which it existed, with the
-- number of deleted cursors, and one per recorded subscription; queue is NULL for a subscription
-- that was not to a single queue. Lock order: queues FOR UPDATE by id, so that no partition is
-- being created; cursors by (partition, group).

CREATE OR REPLACE FUNCTION @schema@.group_delete(p_group text, p_queue text)
RETURNS TABLE (queue text, namespace text, task text, cursors bigint)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_partitions bigint[];
    v_group integer;
    v_queue @schema@.queues;
BEGIN
    RETURN QUERY
    DELETE FROM @schema@.subscriptions s
    WHERE s.group_name = p_group AND (p_queue IS NULL OR s.queue = p_queue)
    RETURNING s.queue::text, s.namespace::text, s.task::text, 0::bigint;
    FOR v_queue IN
        SELECT q.* FROM @schema@.queues q
        JOIN @schema@.groups g ON g.queue_id = q.queue_id AND g.name = p_group
        WHERE p_queue IS NULL OR q.name = p_queue
        ORDER BY q.queue_id FOR UPDATE OF q
    LOOP
        SELECT g.group_id INTO v_group FROM @schema@.groups g
        WHERE g.queue_id = v_queue.queue_id AND g.name = p_group;
        CONTINUE WHEN v_group IS NULL;
        SELECT array_agg(l.partition_id) INTO v_partitions FROM (
            SELECT c.partition_id FROM @schema@.partitions p
            JOIN @schema@.cursors c ON c.partition_id = p.partition_id AND c.group_id = v_group
            WHERE p.queue_id = v_queue.queue_id
            ORDER BY c.partition_id FOR UPDATE OF c) l;
        DELETE FROM @schema@.retries r
        WHERE r.partition_id = ANY (v_partitions) AND r.group_id = v_group;
        DELETE FROM @schema@.cursors c
        WHERE c.partition_id = ANY (v_partitions) AND c.group_id = v_group;
        DELETE FROM @schema@.groups g WHERE g.group_id = v_group;
        queue := v_queue.name; namespace := v_queue.namespace; task := v_queue.task;
        cursors := coalesce(cardinality(v_partitions), 0);
        RETURN NEXT;
    END LOOP;
END
$$;
