-- Leases messages to the waiting requests of some lines, or settles them at once (autoAck). Returns
-- one row per slice of a segment that was leased or settled, in any order (hand_over and
-- first_offset define the order); and one row per line with request 0, which contains its state
-- and, if a request got nothing or p_further is set, the time to its next message. Rows with
-- request -1 name messages that were dropped. p_kinds: 0 queue, 1 partition, 2 namespace and task.
-- p_modes <> 0: a subscription that has to be recorded if its queue is missing. p_firsts, p_counts:
-- the range of the line's requests. p_agains: messages may have been leased under the token before.
-- p_patient: wait (by lock_timeout) for the first due cursor instead of skipping it.
-- p_floor_groups, p_floors: by line, the earliest live due time of a group as returned by the last
-- claim (group_id and created_at of the line's row); NULL if it is unknown. It is a hint: index
-- entries below it are skipped, because an old snapshot of another session may keep any number of
-- dead ones there. Live entries below it are read before a request gets nothing. p_workers: by
-- request, the name of the worker; for the ledger. p_bytes: by request; nothing more is leased once
-- this many bytes are reached. NULL: no limit. p_prompt: do not check whether scheduled messages
-- are due, because they were just moved. p_further: return the time to a line's next message even
-- if all its requests are served. States: 0 done, 1 the group has to be created first
-- (group_begin), 2 only locked cursors are due, 3 scheduled messages are due, and nothing was done
-- because they have to be moved first (scheduled_move), 4 claims are paused, and only messages that
-- were leased under the tokens before are returned.
--
-- The most common call takes a faster path: one queue without delay, window, time limits,
-- priorities of partitions or schedule, requests that want one partition each, and due cursors that
-- have only new messages. The locks and their order are the same. In all other cases it calls
-- claim_lines before it has written anything. Lock order: see claim_line.

CREATE OR REPLACE FUNCTION @schema@.claim(
    p_kinds smallint[], p_queues text[], p_partitions text[], p_namespaces text[], p_tasks text[],
    p_groups text[], p_modes smallint[], p_firsts integer[], p_counts integer[],
    p_tokens uuid[], p_batches integer[], p_partition_maxes integer[], p_auto_acks boolean[],
    p_agains boolean[], p_patient boolean, p_floor_groups integer[] DEFAULT NULL,
    p_floors timestamptz[] DEFAULT NULL, p_prompt boolean DEFAULT false,
    p_workers text[] DEFAULT NULL, p_bytes bigint[] DEFAULT NULL,
    p_further boolean DEFAULT false)
RETURNS TABLE (
    line integer, request integer, state smallint, next_due_us bigint, clock_at timestamptz,
    hand_over bigint, partition_id bigint, group_id integer, queue text, partition text,
    namespace text, task text, lease_us bigint,
    retry_offsets bigint[], retry_failures integer[],
    first_offset bigint, created_at timestamptz, ids uuid[], txn_ids text[], trace_ids uuid[],
    producers text[], body_start integer, ends integer[], body bytea)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    s record;
    v_plain boolean := false;
    v_now timestamptz;
    v_floor timestamptz := '-infinity';
    v_first timestamptz;
    -- Locked rows are found again by their position (ctid): with an old snapshot open, the primary
    -- key would lead to every dead version of them first.
    c_tid tid[];
    c_partition bigint[];
    c_name text[];
    c_start bigint[];
    c_end bigint[];
    v_until bigint;
BEGIN
    IF cardinality(p_kinds) = 1 AND p_kinds[1] = 0 AND NOT p_patient AND NOT true = ANY (p_agains)
        AND NOT true = ANY (p_auto_acks) AND 1 = ALL (p_partition_maxes) AND 0 < ALL (p_batches)
    THEN
        SELECT q.namespace, q.task, q.lease_secs, g.group_id,
            @schema@.group_poll_due(g.polled_at, g.settled, q.group_idle_secs) AS poll_due
        INTO s
        FROM @schema@.queues q
        JOIN @schema@.groups g ON g.queue_id = q.queue_id AND g.name = p_groups[1]
        WHERE q.name = p_queues[1] AND q.delay_secs = 0 AND q.window_secs = 0
            AND q.ttl_secs = 0 AND q.wait_secs_max = 0 AND q.partition_priorities = '{}'
            AND NOT q.scheduled
            AND NOT (SELECT m.pops_paused FROM @schema@.maintenance m WHERE m.one)
            AND g.backfilled_to IS NULL;
        IF FOUND THEN
            v_now := @schema@.clock();
            IF p_floor_groups[1] = s.group_id THEN
                v_floor := coalesce(p_floors[1], v_floor);
            END IF;
            LOOP
                SELECT array_agg(k.tid), array_agg(k.partition_id), array_agg(p.name),
                    array_agg(k.next_offset), array_agg(p.next_offset), min(k.due_at),
                    coalesce(bool_and(k.lease_token IS NULL AND k.parked = 0
                        AND k.gaps IS NULL AND k.next_offset < p.next_offset), true)
                INTO c_tid, c_partition, c_name, c_start, c_end, v_first, v_plain
                FROM (
                    SELECT x.ctid AS tid, x.partition_id, x.next_offset, x.parked, x.lease_token,
                        x.gaps, x.due_at
                    FROM @schema@.cursors x
                    WHERE x.group_id = s.group_id AND x.due_at >= v_floor AND x.due_at <= v_now
                    ORDER BY x.due_at, x.partition_id
                    LIMIT cardinality(p_tokens)
                    FOR NO KEY UPDATE SKIP LOCKED
                ) k JOIN @schema@.partitions p ON p.partition_id = k.partition_id;
                EXIT WHEN v_floor = '-infinity' OR cardinality(c_partition) = cardinality(p_tokens);
                v_floor := '-infinity';
            END LOOP;
        END IF;
    END IF;
    IF NOT v_plain THEN
        RETURN QUERY
        SELECT * FROM @schema@.claim_lines(p_kinds, p_queues, p_partitions, p_namespaces, p_tasks,
            p_groups, p_modes, p_firsts, p_counts, p_tokens, p_batches, p_partition_maxes,
            p_auto_acks, p_agains, p_patient, p_floor_groups, p_floors, p_prompt, p_workers,
            p_bytes, p_further);
        RETURN;
    END IF;
    IF cardinality(c_partition) = 1 THEN
        v_until := least(c_end[1], c_start[1] + p_batches[1]);
        IF v_until - c_start[1] > 1 AND p_bytes IS NOT NULL THEN
            SELECT f.o_end INTO v_until FROM @schema@.log_read_end(
                c_partition[1], c_start[1], v_until, p_bytes[1]) f;
        END IF;
        RETURN QUERY
        WITH leased AS (
            UPDATE @schema@.cursors k SET lease_token = p_tokens[1],
                lease_until = v_now + make_interval(secs => s.lease_secs),
                due_at = v_now + make_interval(secs => s.lease_secs),
                lease_start = c_start[1], next_offset = v_until,
                lease_set = int8multirange(int8range(c_start[1], v_until)),
                taken_at = v_now, taken_by = p_workers[1]
            WHERE k.ctid = c_tid[1]
        )
        SELECT 1, 1, NULL::smallint, NULL::bigint, NULL::timestamptz,
            1::bigint, c_partition[1], s.group_id, p_queues[1], c_name[1], s.namespace, s.task,
            s.lease_secs * 1000000, NULL::bigint[], NULL::integer[],
            g.first_offset + g.first - 1, g.created_at, g.ids[g.first:g.last],
            g.txn_ids[g.first:g.last], g.trace_ids[g.first:g.last], g.producers[g.first:g.last],
            g.body_start, g.ends[g.first:g.last],
            -- NULL for a corrupt row, which the caller reports, instead of an error for the whole
            -- call.
            CASE WHEN g.body_start >= 0 AND g.ends[g.last] > g.body_start
                THEN substring(g.body FROM g.body_start + 1 FOR g.ends[g.last] - g.body_start) END
        FROM (
            SELECT y.*, greatest(c_start[1] - y.first_offset, 0)::integer + 1 AS first,
                least(v_until - y.first_offset, y.len)::integer AS last,
                CASE WHEN c_start[1] > y.first_offset
                    THEN y.ends[(c_start[1] - y.first_offset)::integer] ELSE 0 END AS body_start
            FROM @schema@.segments y
            WHERE y.partition_id = c_partition[1] AND y.first_offset < v_until
                AND y.first_offset >= coalesce((
                    SELECT z.first_offset FROM @schema@.segments z
                    WHERE z.partition_id = c_partition[1] AND z.first_offset <= c_start[1]
                    ORDER BY z.first_offset DESC LIMIT 1), 0)
        ) g;
    ELSIF c_partition IS NOT NULL THEN
        RETURN QUERY
        WITH h AS MATERIALIZED (
            SELECT x.ord, x.tid, x.partition_id, x.name, x.start,
                CASE WHEN p_bytes IS NULL OR least(x.log_end, x.start + x.batch) - x.start < 2
                    THEN least(x.log_end, x.start + x.batch)
                    ELSE (SELECT f.o_end FROM @schema@.log_read_end(x.partition_id, x.start,
                        least(x.log_end, x.start + x.batch), p_bytes[x.ord]) f) END AS until,
                x.token
            FROM unnest(c_tid, c_partition, c_name, c_start, c_end,
                p_batches[:cardinality(c_partition)], p_tokens[:cardinality(c_partition)])
                WITH ORDINALITY AS x (tid, partition_id, name, start, log_end, batch, token, ord)
        ), leased AS (
            UPDATE @schema@.cursors k SET lease_token = h.token,
                lease_until = v_now + make_interval(secs => s.lease_secs),
                due_at = v_now + make_interval(secs => s.lease_secs),
                lease_start = h.start, next_offset = h.until,
                lease_set = int8multirange(int8range(h.start, h.until)),
                taken_at = v_now, taken_by = p_workers[h.ord]
            FROM h WHERE k.ctid = h.tid
        )
        SELECT 1, h.ord::integer, NULL::smallint, NULL::bigint, NULL::timestamptz,
            h.ord, h.partition_id, s.group_id, p_queues[1], h.name, s.namespace, s.task,
            s.lease_secs * 1000000, NULL::bigint[], NULL::integer[],
            g.first_offset + i.first - 1, g.created_at, g.ids[i.first:i.last],
            g.txn_ids[i.first:i.last], g.trace_ids[i.first:i.last], g.producers[i.first:i.last],
            i.body_start, g.ends[i.first:i.last],
            -- NULL for a corrupt row, which the caller reports, instead of an error for the whole
            -- call.
            CASE WHEN i.body_start >= 0 AND g.ends[i.last] > i.body_start
                THEN substring(g.body FROM i.body_start + 1 FOR g.ends[i.last] - i.body_start) END
        FROM h
        CROSS JOIN LATERAL (
            SELECT y.* FROM @schema@.segments y
            WHERE y.partition_id = h.partition_id AND y.first_offset < h.until
                AND y.first_offset >= coalesce((
                    SELECT z.first_offset FROM @schema@.segments z
                    WHERE z.partition_id = h.partition_id AND z.first_offset <= h.start
                    ORDER BY z.first_offset DESC LIMIT 1), 0)
            ORDER BY y.first_offset
        ) g
        CROSS JOIN LATERAL (
            SELECT greatest(h.start - g.first_offset, 0)::integer + 1 AS first,
                least(h.until - g.first_offset, g.len)::integer AS last,
                CASE WHEN h.start > g.first_offset
                    THEN g.ends[(h.start - g.first_offset)::integer] ELSE 0 END AS body_start
        ) i;
    END IF;
    IF s.poll_due <= v_now THEN
        PERFORM @schema@.group_polled(ARRAY[s.group_id], v_now);
    END IF;
    line := 1; request := 0; state := 0; clock_at := v_now;
    group_id := s.group_id; created_at := v_first;
    IF p_further OR coalesce(cardinality(c_partition), 0) < cardinality(p_tokens) THEN
        SELECT n.o_state, n.o_next_due_us INTO state, next_due_us
        FROM @schema@.claim_next_due(
            NULL, ARRAY[s.group_id], false, coalesce(c_partition, '{}'), '{}', v_now) n;
        IF state = 2 AND cardinality(c_partition) = cardinality(p_tokens) THEN
            -- Every request was served, so other due cursors were not looked at.
            state := 0; next_due_us := 0;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
