-- Moves a group, in all its queues or in one, in all partitions or in one: leases and parked
-- messages are removed. Returns one row per cursor, with the time until something can be taken.
-- p_to: 0 to the first stored message, 1 to the end, 2 to the messages that were pushed since
-- p_from. Lock order: queues FOR UPDATE by id; cursors by (partition, group); then tries
-- partitions.

CREATE OR REPLACE FUNCTION @schema@.group_seek(
    p_group text, p_queue text, p_partition text, p_to smallint, p_from timestamptz)
RETURNS TABLE (queue text, partition text, namespace text, task text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    q record;
    v_now timestamptz;
    v_last bigint;
    v_partitions bigint[];
    v_names text[];
    v_nexts bigint[];
BEGIN
    FOR q IN
        SELECT x.*, g.group_id FROM @schema@.queues x
        JOIN @schema@.groups g ON g.queue_id = x.queue_id AND g.name = p_group
        WHERE p_queue IS NULL OR x.name = p_queue
        ORDER BY x.queue_id FOR UPDATE
    LOOP
        IF p_partition IS NULL THEN
            UPDATE @schema@.groups g SET mode = CASE WHEN p_to = 0 THEN 0 ELSE 2 END,
                from_at = CASE p_to WHEN 1 THEN @schema@.clock() WHEN 2 THEN p_from END
            WHERE g.group_id = q.group_id;
        END IF;
        v_last := 0;
        LOOP
            SELECT array_agg(l.partition_id), array_agg(l.name),
                array_agg(CASE WHEN p_to = 1 THEN l.next_offset
                    ELSE @schema@.offset_since(l.partition_id, l.next_offset,
                        CASE WHEN p_to = 0 THEN '-infinity' ELSE p_from END) END)
            INTO v_partitions, v_names, v_nexts
            FROM (
                SELECT p.partition_id, p.name, p.next_offset FROM @schema@.partitions p
                JOIN @schema@.cursors c ON c.partition_id = p.partition_id
                    AND c.group_id = q.group_id
                WHERE p.queue_id = q.queue_id AND p.partition_id > v_last
                    AND (p_partition IS NULL OR p.name = p_partition)
                ORDER BY p.partition_id LIMIT 2000 FOR NO KEY UPDATE OF c
            ) l;
            EXIT WHEN v_partitions IS NULL;
            v_last := v_partitions[cardinality(v_partitions)];
            v_now := @schema@.clock();
            PERFORM @schema@.ledger_write(c.partition_id, c.group_id, NULL,
                CASE WHEN c.lease_until > v_now THEN c.lease_set END,
                CASE WHEN c.lease_until <= v_now THEN c.lease_set END, least(c.lease_until, v_now))
            FROM @schema@.cursors c
            WHERE c.partition_id = ANY (v_partitions) AND c.group_id = q.group_id
                AND c.lease_token IS NOT NULL;
            DELETE FROM @schema@.retries r
            WHERE r.partition_id = ANY (v_partitions) AND r.group_id = q.group_id;
            RETURN QUERY
            SELECT q.name::text, v_names[e.ord], q.namespace::text, q.task::text,
                ceil(extract(epoch FROM e.due_at - v_now) * 1000000)::bigint
            FROM @schema@.lease_end(v_partitions,
                array_fill(q.group_id, ARRAY[cardinality(v_partitions)]), v_nexts,
                array_fill(0, ARRAY[cardinality(v_partitions)]), v_now) e
            ORDER BY e.ord;
        END LOOP;
    END LOOP;
END
$$;
