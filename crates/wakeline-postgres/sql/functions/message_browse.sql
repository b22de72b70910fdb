-- Returns messages of partitions in order of their numbers, in each the newest first, without
-- payloads; after a position (before an offset of a partition). Returns a row per matching message,
-- with the state of each group for it: 0 pending, 1 processing, 2 dead letter, 3 completed; and a
-- row with next_partition if more may follow. Reads at most p_look messages and p_partitions
-- partitions. Times are found by binary search (offset_since), so that messages outside of them are
-- not read. Reads only.

CREATE OR REPLACE FUNCTION @schema@.message_browse(
    p_queue text, p_partition text, p_namespace text, p_task text, p_state smallint,
    p_from timestamptz, p_to timestamptz, p_place bigint, p_before bigint, p_limit integer,
    p_look integer, p_partitions integer)
RETURNS TABLE (
    next_partition bigint, next_before bigint, queue text, namespace text, task text,
    priority integer, partition text, partition_id bigint, message_offset bigint, id uuid,
    txn_id text, trace_id uuid, producer text, created_at timestamptz, group_names text[],
    states smallint[])
LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    v_low bigint;
    v_high bigint;
    v_seen integer := 0;
    v_looked integer := 0;
    v_found integer := 0;
    p record;
    s record;
BEGIN
    FOR p IN
        SELECT x.partition_id, x.name, x.next_offset, x.last_push_at, q.name AS queue,
            q.namespace, q.task, q.priority
        FROM @schema@.partitions x JOIN @schema@.queues q ON q.queue_id = x.queue_id
        WHERE x.partition_id >= p_place AND (p_queue IS NULL OR q.name = p_queue)
            AND (p_partition IS NULL OR x.name = p_partition)
            AND (p_namespace IS NULL OR q.namespace = p_namespace)
            AND (p_task IS NULL OR q.task = p_task)
        ORDER BY x.partition_id LIMIT p_partitions + 1
    LOOP
        v_seen := v_seen + 1;
        IF v_seen > p_partitions THEN
            next_partition := p.partition_id; next_before := 9223372036854775807;
            RETURN NEXT;
            RETURN;
        END IF;
        CONTINUE WHEN p.last_push_at IS NULL OR p.last_push_at < p_from;
        queue := p.queue; namespace := p.namespace; task := p.task; priority := p.priority;
        partition := p.name; partition_id := p.partition_id;
        v_low := CASE WHEN p_from IS NULL THEN 0
            ELSE @schema@.offset_since(p.partition_id, p.next_offset, p_from) END;
        v_high := least(CASE WHEN p.partition_id = p_place THEN p_before END,
            CASE WHEN p_to IS NULL THEN p.next_offset
                ELSE @schema@.offset_since(p.partition_id, p.next_offset, p_to) END);
        FOR s IN
            SELECT g.first_offset, g.len, g.created_at, g.ids, g.txn_ids, g.trace_ids, g.producers
            FROM @schema@.segments g
            WHERE g.partition_id = p.partition_id AND g.first_offset < v_high
            ORDER BY g.first_offset DESC
        LOOP
            EXIT WHEN s.first_offset + s.len <= v_low;
            created_at := s.created_at;
            FOR n IN REVERSE least(s.len, v_high - s.first_offset)
                .. greatest(1, v_low - s.first_offset + 1)
            LOOP
                message_offset := s.first_offset + n - 1;
                IF v_found = p_limit OR v_looked = p_look THEN
                    next_partition := p.partition_id; next_before := message_offset + 1;
                    RETURN NEXT;
                    RETURN;
                END IF;
                v_looked := v_looked + 1;
                id := s.ids[n]; txn_id := s.txn_ids[n]; trace_id := s.trace_ids[n];
                producer := s.producers[n];
                SELECT array_agg(m.o_group ORDER BY m.o_group COLLATE "C"),
                    array_agg(m.o_state ORDER BY m.o_group COLLATE "C")
                INTO group_names, states
                FROM @schema@.message_state(p.partition_id, message_offset, v_now) m;
                CONTINUE WHEN p_state <> coalesce(
                    states[array_position(group_names, '__QUEUE_MODE__')], states[1], 0);
                v_found := v_found + 1;
                RETURN NEXT;
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;
