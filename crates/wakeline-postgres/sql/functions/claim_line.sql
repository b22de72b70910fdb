-- Leases messages to the requests of one line, or settles them at once (autoAck). Cursors are taken
-- in the order of their due time with SKIP LOCKED, so that concurrent claims skip each other's
-- cursors instead of waiting for them. Returns the leased ranges by request as parallel arrays; the
-- failures of messages that were delivered before, by the index of the range; the time to the
-- line's next message if a request got nothing or p_further is set; and the messages that were
-- dropped because their last lease had expired and their queue keeps no dead letters. p_ranked:
-- some queue has priorities of partitions. Those partitions are looked up one by one; the others
-- are found by their due time. p_passed: partitions that this call has served. p_patient: wait for
-- the first due cursor. p_floor: the earliest live due time, as in claim; o_floor: the earliest one
-- that was seen. p_bytes: by request; nothing more is leased once this many bytes are reached.
-- NULL: no limit. o_state: 0 done, 2 only locked cursors are due. Lock order: cursors, without
-- waiting, except for the first one if p_patient; then tries queues and partitions.

CREATE OR REPLACE FUNCTION @schema@.claim_line(
    p_partition bigint, p_groups integer[], p_queues integer[], p_priorities integer[],
    p_tokens uuid[], p_batches integer[], p_partition_maxes integer[], p_auto_acks boolean[],
    p_agains boolean[], p_windowed boolean, p_ranked boolean, p_passed bigint[], p_patient boolean,
    p_floor timestamptz, p_workers text[], p_bytes bigint[], p_further boolean,
    OUT o_state smallint,
    OUT o_next_due_us bigint, OUT o_requests integer[],
    OUT o_partitions bigint[], OUT o_groups integer[], OUT o_sets int8multirange[],
    OUT o_lease_us bigint[], OUT o_retry_grants integer[], OUT o_retry_offsets bigint[],
    OUT o_retry_failures integer[], OUT o_floor timestamptz, OUT o_dropped_partitions bigint[],
    OUT o_dropped_offsets bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_queue @schema@.queues;
    v_floor timestamptz := coalesce(p_floor, '-infinity');
    v_cursors refcursor;
    v_cursor @schema@.cursors;
    c record;
    v_found integer;
    v_request integer := 0;
    v_capacity integer := 0;
    v_left integer := 0;
    v_bytes bigint;
    t_bytes bigint;
    v_without boolean := false;
    v_done boolean := false;
    v_kept bigint[] := '{}';
    v_due timestamptz;
    v_parked integer;
    -- Partitions with a priority of their own. Within a queue, those with a low priority wait for
    -- all others.
    r_partition bigint[] := '{}';
    r_priority integer[] := '{}';
    v_low boolean := cardinality(p_groups) > 1;
    -- The messages taken from one cursor.
    t_set int8multirange;
    t_next bigint;
    t_offsets bigint[];
    t_failures integer[];
    -- The cursors that were drained in this round.
    d_partition bigint[];
    d_group integer[];
    d_next bigint[];
    d_parked integer[];
    -- The leased messages.
    g_tid tid[] := '{}';
    g_start bigint[] := '{}';
    g_next bigint[] := '{}';
    g_set int8multirange[] := '{}';
    g_parked integer[] := '{}';
    g_token uuid[] := '{}';
    g_until timestamptz[] := '{}';
    -- The messages that were settled at once.
    s_partition bigint[] := '{}';
    s_group integer[] := '{}';
    s_next bigint[] := '{}';
    s_parked integer[] := '{}';
    s_set int8multirange[] := '{}';
    s_worker text[] := '{}';
    s_secs bigint[] := '{}';
    g_worker text[] := '{}';
BEGIN
    o_state := 0;
    o_requests := '{}'; o_partitions := '{}'; o_groups := '{}'; o_sets := '{}'; o_lease_us := '{}';
    o_dropped_partitions := '{}'; o_dropped_offsets := '{}';
    o_retry_grants := '{}'; o_retry_offsets := '{}'; o_retry_failures := '{}';
    IF p_patient THEN
        PERFORM @schema@.cursor_await(p_partition, p_groups, v_now);
    END IF;
    -- If this is the second attempt of the claim: the messages that the first one leased.
    FOR i IN 1 .. cardinality(p_tokens) LOOP
        CONTINUE WHEN NOT p_agains[i];
        FOR c IN SELECT * FROM @schema@.lease_find(p_partition, p_groups, p_tokens[i], v_now) LOOP
            o_requests := o_requests || i;
            o_partitions := o_partitions || c.partition_id;
            o_groups := o_groups || c.group_id;
            o_sets := o_sets || c.lease_set;
            o_lease_us := o_lease_us || c.lease_us;
            o_retry_grants := o_retry_grants
                || array_fill(cardinality(o_requests), ARRAY[cardinality(c.offsets)]);
            o_retry_offsets := o_retry_offsets || c.offsets;
            o_retry_failures := o_retry_failures || c.failures;
            p_batches[i] := 0;
        END LOOP;
    END LOOP;
    IF p_ranked AND p_partition IS NULL THEN
        SELECT coalesce(array_agg(p.partition_id), '{}'),
            coalesce(array_agg(x.priority::integer), '{}')
        INTO r_partition, r_priority
        FROM unnest(p_queues) AS u (queue_id)
        JOIN @schema@.queues q ON q.queue_id = u.queue_id
        CROSS JOIN LATERAL jsonb_each_text(q.partition_priorities) AS x (name, priority)
        JOIN @schema@.partitions p ON p.queue_id = q.queue_id AND p.name = x.name;
    END IF;
    LOOP
        v_now := @schema@.clock();
        v_found := 0;
        d_partition := '{}'; d_group := '{}'; d_next := '{}'; d_parked := '{}';
        IF p_partition IS NOT NULL THEN
            OPEN v_cursors FOR
                SELECT k.*, p.next_offset AS log_end, p.last_push_at FROM (
                    SELECT k.ctid AS tid, k.* FROM @schema@.cursors k
                    WHERE k.partition_id = p_partition AND k.group_id = p_groups[1]
                        AND k.due_at <= v_now AND k.partition_id <> ALL (p_passed)
                    FOR NO KEY UPDATE SKIP LOCKED
                ) k JOIN @schema@.partitions p ON p.partition_id = k.partition_id;
        ELSIF cardinality(p_groups) = 1 AND r_partition = '{}' THEN
            OPEN v_cursors FOR
                SELECT k.*, p.next_offset AS log_end, p.last_push_at FROM (
                    SELECT k.ctid AS tid, k.* FROM @schema@.cursors k
                    WHERE k.group_id = p_groups[1] AND k.due_at >= v_floor AND k.due_at <= v_now
                        AND (p_passed = '{}' OR k.partition_id <> ALL (p_passed))
                    ORDER BY k.due_at, k.partition_id
                    FOR NO KEY UPDATE SKIP LOCKED
                ) k JOIN @schema@.partitions p ON p.partition_id = k.partition_id;
        ELSE
            -- With several queues or with priorities of partitions, the first cursors of each are
            -- merged by priority and due time, and then tried.
            OPEN v_cursors FOR
                SELECT k.*, p.next_offset AS log_end, p.last_push_at FROM (
                    SELECT f.partition_id, f.group_id
                    FROM unnest(p_groups, p_priorities) AS x (group_id, priority)
                    CROSS JOIN LATERAL (
                        (SELECT f.partition_id, f.group_id, f.due_at, 0 AS rank
                        FROM @schema@.cursors f
                        WHERE f.group_id = x.group_id AND f.due_at <= v_now
                            AND f.partition_id <> ALL (p_passed)
                            AND f.partition_id <> ALL (r_partition)
                        ORDER BY f.due_at, f.partition_id LIMIT 100)
                        UNION ALL
                        SELECT f.partition_id, f.group_id, f.due_at, r.priority
                        FROM unnest(r_partition, r_priority) AS r (partition_id, priority)
                        JOIN @schema@.cursors f
                            ON f.partition_id = r.partition_id AND f.group_id = x.group_id
                        WHERE f.due_at <= v_now AND f.partition_id <> ALL (p_passed)
                            AND (r.priority >= 0 OR v_low)) f
                    ORDER BY x.priority DESC, f.rank DESC, f.due_at, f.partition_id
                ) m CROSS JOIN LATERAL (
                    SELECT k.ctid AS tid, k.* FROM @schema@.cursors k
                    WHERE k.partition_id = m.partition_id AND k.group_id = m.group_id
                        AND k.due_at <= v_now
                    FOR NO KEY UPDATE SKIP LOCKED
                ) k JOIN @schema@.partitions p ON p.partition_id = k.partition_id;
        END IF;

        LOOP
            -- The next request that can take something.
            WHILE NOT v_done AND (v_capacity <= 0 OR v_left <= 0) LOOP
                v_done := v_request = cardinality(p_tokens);
                EXIT WHEN v_done;
                v_request := v_request + 1;
                v_capacity := p_batches[v_request];
                v_left := p_partition_maxes[v_request];
                v_bytes := coalesce(p_bytes[v_request], 9223372036854775807);
                v_without := v_capacity > 0;
            END LOOP;
            EXIT WHEN v_done;
            FETCH v_cursors INTO c;
            EXIT WHEN NOT FOUND;
            v_found := v_found + 1;
            o_floor := least(o_floor, c.due_at);
            IF v_queue.queue_id IS NULL
                OR v_queue.queue_id <> p_queues[array_position(p_groups, c.group_id)]
            THEN
                SELECT q.* INTO v_queue FROM @schema@.queues q
                WHERE q.queue_id = p_queues[array_position(p_groups, c.group_id)];
            END IF;
            IF c.lease_until > v_now THEN
                UPDATE @schema@.cursors k SET due_at = k.lease_until
                WHERE k.partition_id = c.partition_id AND k.group_id = c.group_id;
                CONTINUE;
            END IF;
            IF c.lease_token IS NOT NULL THEN
                c.parked := c.parked + @schema@.lease_expire(
                    c.partition_id, c.group_id, c.lease_set, v_queue, v_now);
                PERFORM @schema@.ledger_write(
                    c.partition_id, c.group_id, NULL, NULL, c.lease_set, c.lease_until);
                IF NOT v_queue.dead_letters AND upper(c.lease_set) - lower(c.lease_set) = 1
                    AND NOT EXISTS (SELECT FROM @schema@.retries r
                        WHERE r.partition_id = c.partition_id AND r.group_id = c.group_id
                            AND r.message_offset = lower(c.lease_set))
                THEN
                    o_dropped_partitions := o_dropped_partitions || c.partition_id;
                    o_dropped_offsets := o_dropped_offsets || lower(c.lease_set);
                END IF;
                UPDATE @schema@.cursors k SET lease_token = NULL, lease_until = NULL,
                    lease_start = NULL, lease_set = NULL, lease_all = NULL, lease_failed = NULL,
                    lease_expired = NULL, lease_released = NULL, parked = c.parked
                WHERE k.ctid = c.tid RETURNING k.ctid INTO c.tid;
            END IF;
            IF v_queue.ttl_secs > 0 OR v_queue.wait_secs_max > 0 THEN
                SELECT x.* INTO t_next, v_parked FROM @schema@.cursor_skip(c.partition_id,
                    c.group_id, c.next_offset, c.parked, c.gaps, c.log_end, v_queue, v_now) x;
                IF t_next <> c.next_offset OR v_parked <> c.parked THEN
                    c.next_offset := t_next; c.parked := v_parked;
                    c.gaps := nullif(c.gaps * int8multirange(int8range(t_next, NULL)), '{}');
                    UPDATE @schema@.cursors k SET next_offset = t_next, parked = v_parked,
                        gaps = c.gaps
                    WHERE k.ctid = c.tid RETURNING k.ctid INTO c.tid;
                END IF;
            END IF;
            IF c.parked = 0 AND c.gaps IS NULL AND v_queue.delay_secs = 0
                AND v_queue.window_secs = 0
            THEN
                t_next := greatest(c.next_offset, least(c.log_end, c.next_offset + v_capacity));
                t_bytes := 0;
                IF p_bytes IS NOT NULL AND t_next > c.next_offset
                    AND (t_next - c.next_offset > 1 OR p_partition_maxes[v_request] > 1)
                THEN
                    SELECT f.o_end, f.o_bytes INTO t_next, t_bytes FROM @schema@.log_read_end(
                        c.partition_id, c.next_offset, t_next, v_bytes) f;
                END IF;
                t_set := int8multirange(int8range(c.next_offset, t_next));
                t_offsets := '{}';
            ELSE
                v_cursor.partition_id := c.partition_id; v_cursor.group_id := c.group_id;
                v_cursor.next_offset := c.next_offset; v_cursor.parked := c.parked;
                v_cursor.gaps := c.gaps;
                SELECT x.* INTO t_set, t_next, t_offsets, t_failures, t_bytes
                FROM @schema@.cursor_take(
                    v_cursor, c.log_end, c.last_push_at, v_capacity, v_queue, v_now, v_bytes) x;
            END IF;
            IF t_set = '{}' THEN
                IF c.log_end <= c.next_offset AND NOT (c.parked > 0 AND v_queue.strict_order) THEN
                    d_partition := d_partition || c.partition_id; d_group := d_group || c.group_id;
                    d_next := d_next || c.next_offset; d_parked := d_parked || c.parked;
                    CONTINUE;
                END IF;
                -- Not before a later time. As in lease_end, only while the options cannot change.
                SELECT @schema@.cursor_due(c.partition_id, c.group_id, c.next_offset, c.parked,
                    c.log_end, c.last_push_at, l.strict_order, l.delay_secs, l.window_secs,
                    l.ttl_secs)
                INTO v_due
                FROM (SELECT q.* FROM @schema@.queues q WHERE q.queue_id = v_queue.queue_id
                    FOR SHARE SKIP LOCKED) l;
                IF v_due > v_now THEN
                    UPDATE @schema@.cursors k SET due_at = v_due
                    WHERE k.partition_id = c.partition_id AND k.group_id = c.group_id;
                ELSE
                    v_kept := v_kept || c.partition_id;
                    p_passed := p_passed || c.partition_id;
                END IF;
                CONTINUE;
            END IF;
            v_left := v_left - 1;
            v_without := false;
            p_passed := p_passed || c.partition_id;
            o_requests := o_requests || v_request;
            o_partitions := o_partitions || c.partition_id;
            o_groups := o_groups || c.group_id;
            o_sets := o_sets || t_set;
            o_lease_us := o_lease_us || v_queue.lease_secs * 1000000;
            v_capacity := v_capacity - (t_next - c.next_offset)::integer - cardinality(t_offsets)
                + CASE WHEN c.gaps IS NULL THEN 0
                    ELSE @schema@.gap_len(c.gaps, c.next_offset, t_next)::integer END;
            v_bytes := v_bytes - t_bytes;
            IF v_bytes <= 0 THEN
                v_capacity := 0;
            END IF;
            IF t_offsets <> '{}' THEN
                o_retry_grants := o_retry_grants || array_fill(
                    cardinality(o_requests), ARRAY[cardinality(t_offsets)]);
                o_retry_offsets := o_retry_offsets || t_offsets;
                o_retry_failures := o_retry_failures || t_failures;
            END IF;
            IF p_auto_acks[v_request] THEN
                IF t_offsets <> '{}' THEN
                    DELETE FROM @schema@.retries r
                    WHERE r.partition_id = c.partition_id AND r.group_id = c.group_id
                        AND r.message_offset = ANY (t_offsets);
                END IF;
                s_partition := s_partition || c.partition_id; s_group := s_group || c.group_id;
                s_next := s_next || t_next;
                s_parked := s_parked || c.parked - cardinality(t_offsets);
                s_set := s_set || t_set; s_worker := s_worker || p_workers[v_request];
                s_secs := s_secs || v_queue.ledger_secs;
            ELSE
                g_tid := g_tid || c.tid;
                g_start := g_start || c.next_offset; g_next := g_next || t_next;
                g_set := g_set || t_set; g_parked := g_parked || c.parked;
                g_token := g_token || p_tokens[v_request];
                g_worker := g_worker || p_workers[v_request];
                g_until := g_until || v_now + make_interval(secs => v_queue.lease_secs);
            END IF;
        END LOOP;
        CLOSE v_cursors;
        IF d_partition <> '{}' THEN
            -- Put the drained cursors to sleep. Those whose partition is locked by a push stay due
            -- and are skipped.
            FOR c IN SELECT e.ord FROM @schema@.lease_end(
                d_partition, d_group, d_next, d_parked, v_now) e WHERE e.due_at <= v_now
            LOOP
                v_kept := v_kept || d_partition[c.ord];
                p_passed := p_passed || d_partition[c.ord];
            END LOOP;
        END IF;
        EXIT WHEN v_done
            OR (v_found = 0 AND v_floor = '-infinity' AND (v_low OR r_partition = '{}'));
        v_low := v_low OR v_found = 0;
        v_floor := '-infinity';
    END LOOP;
    IF g_tid <> '{}' THEN
        -- By position, as in claim: the rows have been locked since they were read.
        UPDATE @schema@.cursors k SET lease_token = x.token, lease_until = x.until,
            due_at = x.until, lease_start = x.start, next_offset = x.next, lease_set = x.set,
            gaps = nullif(k.gaps * int8multirange(int8range(x.next, NULL)), '{}'),
            parked = x.parked, taken_at = v_now, taken_by = x.worker
        FROM unnest(g_tid, g_token, g_until, g_start, g_next, g_set, g_parked, g_worker)
            AS x (tid, token, until, start, next, set, parked, worker)
        WHERE k.ctid = x.tid;
    END IF;
    IF s_partition <> '{}' THEN
        PERFORM @schema@.lease_end(s_partition, s_group, s_next, s_parked, v_now);
        PERFORM @schema@.group_settled(s_group);
        UPDATE @schema@.cursors k SET taken_at = v_now, taken_by = x.worker
        FROM unnest(s_partition, s_group, s_worker) AS x (partition_id, group_id, worker)
        WHERE k.partition_id = x.partition_id AND k.group_id = x.group_id;
        INSERT INTO @schema@.ledger_entries (partition_id, group_id, first_offset, last_offset,
            worker, offered_at, leased_until, ended_at, expires_at, offsets)
        SELECT x.partition_id, x.group_id, lower(x.set), upper(x.set) - 1, x.worker, v_now, v_now,
            v_now, v_now + make_interval(secs => x.secs), x.set
        FROM unnest(s_partition, s_group, s_set, s_worker, s_secs)
            AS x (partition_id, group_id, set, worker, secs)
        WHERE x.secs > 0;
    END IF;
    v_without := v_without OR v_request < cardinality(p_tokens);
    IF v_without OR p_further THEN
        SELECT n.o_state, n.o_next_due_us INTO o_state, o_next_due_us
        FROM @schema@.claim_next_due(
            p_partition, p_groups, p_windowed, p_passed, v_kept, v_now) n;
        IF o_state = 2 AND NOT v_without THEN
            -- Every request was served, so other due cursors were not looked at.
            o_state := 0; o_next_due_us := 0;
        END IF;
    END IF;
END
$$;
