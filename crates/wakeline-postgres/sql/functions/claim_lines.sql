-- The general case of claim, for any lines and requests. Parameters and rows are those of claim.
-- Lock order: see claim_line.

CREATE OR REPLACE FUNCTION @schema@.claim_lines(
    p_kinds smallint[], p_queues text[], p_partitions text[], p_namespaces text[], p_tasks text[],
    p_groups text[], p_modes smallint[], p_firsts integer[], p_counts integer[],
    p_tokens uuid[], p_batches integer[], p_partition_maxes integer[], p_auto_acks boolean[],
    p_agains boolean[], p_patient boolean, p_floor_groups integer[], p_floors timestamptz[],
    p_prompt boolean, p_workers text[], p_bytes bigint[], p_further boolean)
RETURNS TABLE (
    line integer, request integer, state smallint, next_due_us bigint, clock_at timestamptz,
    hand_over bigint, partition_id bigint, group_id integer, queue text, partition text,
    namespace text, task text, lease_us bigint,
    retry_offsets bigint[], retry_failures integer[],
    first_offset bigint, created_at timestamptz, ids uuid[], txn_ids text[], trace_ids uuid[],
    producers text[], body_start integer, ends integer[], body bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s record;
    l record;
    v_first integer;
    v_last integer;
    v_passed bigint[];
    v_wait timestamptz;
    v_paused boolean;
    h_line integer[] := '{}';
    h_request integer[] := '{}';
    h_partition bigint[] := '{}';
    h_group integer[] := '{}';
    h_set int8multirange[] := '{}';
    h_lease_us bigint[] := '{}';
    h_retry_grant integer[] := '{}';
    h_retry_offset bigint[] := '{}';
    h_retry_failures integer[] := '{}';
BEGIN
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '50ms', true);
    END IF;
    SELECT m.pops_paused INTO v_paused FROM @schema@.maintenance m WHERE m.one;
    FOR v_line IN 1 .. cardinality(p_kinds) LOOP
        SELECT x.* INTO s FROM @schema@.claim_scope(p_kinds[v_line], p_queues[v_line],
            p_partitions[v_line], p_namespaces[v_line], p_tasks[v_line], p_groups[v_line],
            p_modes[v_line]) x;
        line := v_line; request := 0; state := 0; next_due_us := NULL;
        group_id := NULL; created_at := NULL;
        clock_at := @schema@.clock();
        IF s.o_polled <> '{}' THEN
            PERFORM @schema@.group_polled(s.o_polled, clock_at);
        END IF;
        v_wait := NULL;
        IF s.o_scheduled <> '{}' AND (p_kinds[v_line] <> 1 OR s.o_partition IS NOT NULL) THEN
            v_wait := @schema@.scheduled_next(s.o_scheduled, s.o_partition);
        END IF;
        IF v_wait <= clock_at AND NOT p_prompt THEN
            state := 3;
        ELSIF s.o_begin THEN
            state := 1;
        ELSIF v_paused AND NOT true = ANY (
            p_agains[p_firsts[v_line] : p_firsts[v_line] + p_counts[v_line] - 1])
        THEN
            state := 4;
        ELSIF s.o_groups <> '{}' THEN
            v_first := p_firsts[v_line];
            v_last := v_first + p_counts[v_line] - 1;
            IF v_paused THEN
                p_batches[v_first:v_last] := array_fill(0, ARRAY[p_counts[v_line]]);
            END IF;
            v_passed := '{}';
            IF h_line <> '{}' THEN
                SELECT coalesce(array_agg(x.partition_id), '{}') INTO v_passed
                FROM unnest(h_partition, h_group) AS x (partition_id, group_id)
                WHERE x.group_id = ANY (s.o_groups);
            END IF;
            SELECT x.* INTO l FROM @schema@.claim_line(
                s.o_partition, s.o_groups, s.o_queues, s.o_priorities,
                p_tokens[v_first:v_last], p_batches[v_first:v_last],
                p_partition_maxes[v_first:v_last], p_auto_acks[v_first:v_last],
                p_agains[v_first:v_last], s.o_windowed, s.o_ranked, v_passed, p_patient,
                CASE WHEN p_floor_groups[v_line] = s.o_groups[1] THEN p_floors[v_line] END,
                p_workers[v_first:v_last], p_bytes[v_first:v_last], p_further) x;
            state := l.o_state; next_due_us := l.o_next_due_us;
            IF v_wait IS NOT NULL AND (p_further OR p_counts[v_line] > (
                SELECT count(DISTINCT x) FROM unnest(l.o_requests) AS x))
            THEN
                next_due_us := least(next_due_us, ceil(greatest(
                    extract(epoch FROM v_wait - clock_at), 0) * 1000000)::bigint);
            END IF;
            IF cardinality(s.o_groups) = 1 AND NOT s.o_ranked THEN
                group_id := s.o_groups[1]; created_at := l.o_floor;
            END IF;
            IF l.o_dropped_partitions <> '{}' THEN
                request := -1;
                FOR partition_id, queue, partition, first_offset IN
                    SELECT p.partition_id, q.name, p.name, x.message_offset
                    FROM unnest(l.o_dropped_partitions, l.o_dropped_offsets)
                        AS x (partition_id, message_offset)
                    JOIN @schema@.partitions p ON p.partition_id = x.partition_id
                    JOIN @schema@.queues q ON q.queue_id = p.queue_id
                LOOP
                    RETURN NEXT;
                END LOOP;
                request := 0; partition_id := NULL; queue := NULL; partition := NULL;
                first_offset := NULL;
            END IF;
            h_retry_grant := h_retry_grant || ARRAY(
                SELECT x + cardinality(h_line) FROM unnest(l.o_retry_grants) AS x);
            h_retry_offset := h_retry_offset || l.o_retry_offsets;
            h_retry_failures := h_retry_failures || l.o_retry_failures;
            h_line := h_line || array_fill(v_line, ARRAY[cardinality(l.o_requests)]);
            h_request := h_request || l.o_requests;
            h_partition := h_partition || l.o_partitions;
            h_group := h_group || l.o_groups;
            h_set := h_set || l.o_sets;
            h_lease_us := h_lease_us || l.o_lease_us;
        END IF;
        IF v_paused AND state NOT IN (1, 3) THEN
            state := 4; next_due_us := NULL;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF h_line = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT h.line, h.request, NULL::smallint, NULL::bigint, NULL::timestamptz,
        h.ord, h.partition_id, h.group_id, q.name, p.name, q.namespace, q.task, h.lease_us, f.offsets, f.failures,
        g.first_offset + i.first - 1, g.created_at, g.ids[i.first:i.last],
        g.txn_ids[i.first:i.last], g.trace_ids[i.first:i.last], g.producers[i.first:i.last],
        i.body_start,
        g.ends[i.first:i.last],
        -- NULL for a corrupt row, which the caller reports, instead of an error for the whole call.
        CASE WHEN i.body_start >= 0 AND g.ends[i.last] > i.body_start
            THEN substring(g.body FROM i.body_start + 1 FOR g.ends[i.last] - i.body_start) END
    FROM unnest(h_line, h_request, h_partition, h_group, h_set, h_lease_us)
        WITH ORDINALITY AS h (line, request, partition_id, group_id, set, lease_us, ord)
    JOIN @schema@.partitions p ON p.partition_id = h.partition_id
    JOIN @schema@.queues q ON q.queue_id = p.queue_id
    CROSS JOIN LATERAL (
        SELECT array_agg(r.message_offset) AS offsets, array_agg(r.failures) AS failures
        FROM unnest(h_retry_grant, h_retry_offset, h_retry_failures)
            AS r (hand_over, message_offset, failures)
        WHERE r.hand_over = h.ord
    ) f
    CROSS JOIN LATERAL unnest(h.set) AS x (run)
    CROSS JOIN LATERAL (
        SELECT y.* FROM @schema@.segments y
        WHERE y.partition_id = h.partition_id AND y.first_offset < upper(x.run)
            AND y.first_offset >= coalesce((
                SELECT z.first_offset FROM @schema@.segments z
                WHERE z.partition_id = h.partition_id AND z.first_offset <= lower(x.run)
                ORDER BY z.first_offset DESC LIMIT 1), 0)
        ORDER BY y.first_offset
    ) g
    CROSS JOIN LATERAL (
        SELECT greatest(lower(x.run) - g.first_offset, 0)::integer + 1 AS first,
            least(upper(x.run) - g.first_offset, g.len)::integer AS last,
            CASE WHEN lower(x.run) > g.first_offset
                THEN g.ends[(lower(x.run) - g.first_offset)::integer] ELSE 0 END AS body_start
    ) i;
END
$$;
