-- Housekeeping of one partition: ends expired leases, skips messages that groups must not get any
-- more, and removes up to p_rows segments by the rules of retention. Skips a partition whose oldest
-- message is younger than the shortest of the limits. p_groups: the number of the queue's groups;
-- p_holding: those of them whose unsettled messages are kept. The others, which are idle, only keep
-- what is leased. p_shortest, p_age, p_completed: the shortest limit; the age at which messages are
-- removed even if they are not settled; that of messages that every group has settled. NULL: never.
-- Messages that are leased, or whose transaction ids still have to be recognised, stay; dead
-- letters own their data. Messages that a group had not settled are counted as expired; in a queue
-- without groups all removed ones are. o_rows, o_removed: removed segments and messages; o_more:
-- there may be more; o_locked: cursors were locked; o_changed: a cursor may have something else to
-- deliver; o_first: when the oldest remaining message was pushed. Lock order: cursors by
-- (partition, group), without waiting; then tries the partition, and as lease_end.

CREATE OR REPLACE FUNCTION @schema@.partition_keep(
    p_partition bigint, p_end bigint, p_queue @schema@.queues, p_groups bigint,
    p_holding integer[], p_rows integer,
    p_shortest interval, p_age interval, p_completed interval, p_now timestamptz,
    OUT o_rows integer, OUT o_removed bigint, OUT o_more boolean, OUT o_locked boolean,
    OUT o_changed boolean, OUT o_first timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_live boolean;
    v_next bigint;
    v_parked integer;
    v_leased bigint;
    v_open bigint;
    v_known timestamptz := p_now - make_interval(secs => p_queue.dedup_window_secs);
    v_before timestamptz;
    v_first bigint;
    v_lost bigint := 0;
    k_group integer[] := '{}';
    k_next bigint[] := '{}';
    k_gaps int8multirange[] := '{}';
    k_parked integer[] := '{}';
    k_live boolean[] := '{}';
    k_touched boolean[] := '{}';
BEGIN
    o_rows := 0; o_removed := 0; o_more := false; o_locked := false; o_changed := false;
    SELECT s.created_at INTO o_first FROM @schema@.segments s
    WHERE s.partition_id = p_partition ORDER BY s.first_offset LIMIT 1;
    IF o_first IS NULL OR o_first + p_shortest > p_now THEN
        RETURN;
    END IF;
    o_locked := true;
    FOR c IN SELECT k.* FROM @schema@.cursors k WHERE k.partition_id = p_partition
        ORDER BY k.partition_id, k.group_id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        v_live := coalesce(c.lease_until > p_now, false);
        v_next := c.next_offset; v_parked := c.parked;
        IF v_live THEN
            v_leased := least(v_leased, lower(c.lease_set));
        ELSE
            IF c.lease_token IS NOT NULL THEN
                v_parked := v_parked + @schema@.lease_expire(
                    c.partition_id, c.group_id, c.lease_set, p_queue, p_now);
                PERFORM @schema@.ledger_write(
                    c.partition_id, c.group_id, NULL, NULL, c.lease_set, c.lease_until);
            END IF;
            SELECT x.* INTO v_next, v_parked FROM @schema@.cursor_skip(
                c.partition_id, c.group_id, v_next, v_parked, c.gaps, p_end, p_queue, p_now) x;
        END IF;
        v_open := least(v_open, CASE WHEN v_live THEN lower(c.lease_set) END,
            CASE WHEN v_next < p_end AND c.group_id = ANY (p_holding) THEN v_next END,
            CASE WHEN v_parked > 0 AND c.group_id = ANY (p_holding) THEN (
                SELECT r.message_offset FROM @schema@.retries r
                WHERE r.partition_id = c.partition_id AND r.group_id = c.group_id
                ORDER BY r.message_offset LIMIT 1) END);
        k_group := k_group || c.group_id; k_next := k_next || v_next;
        k_gaps := array_append(k_gaps, c.gaps);
        k_parked := k_parked || v_parked; k_live := k_live || v_live;
        k_touched := k_touched || (NOT v_live AND (c.lease_token IS NOT NULL
            OR v_next <> c.next_offset OR v_parked <> c.parked));
    END LOOP;
    -- A cursor that another transaction has locked: what it has settled is unknown.
    IF cardinality(k_group) = p_groups THEN
        v_before := greatest(
            CASE WHEN p_age IS NOT NULL THEN least(p_now - p_age + interval '1 microsecond',
                v_known, (SELECT s.created_at FROM @schema@.segments s
                    WHERE s.partition_id = p_partition AND s.first_offset <= v_leased
                    ORDER BY s.first_offset DESC LIMIT 1)) END,
            CASE WHEN p_completed IS NOT NULL AND p_groups > 0
                THEN least(p_now - p_completed + interval '1 microsecond',
                v_known, (SELECT s.created_at FROM @schema@.segments s
                    WHERE s.partition_id = p_partition AND s.first_offset <= v_open
                    ORDER BY s.first_offset DESC LIMIT 1)) END);
        WITH gone AS (
            DELETE FROM @schema@.segments s USING (
                SELECT x.first_offset, x.created_at FROM @schema@.segments x
                WHERE x.partition_id = p_partition
                ORDER BY x.first_offset LIMIT p_rows
            ) o
            WHERE s.partition_id = p_partition AND s.first_offset = o.first_offset
                AND o.created_at < v_before
            RETURNING s.len
        )
        SELECT count(*), coalesce(sum(g.len), 0) INTO o_rows, o_removed FROM gone g;
    END IF;
    IF o_rows > 0 THEN
        o_more := o_rows >= p_rows;
        SELECT coalesce(s.first_offset, p.next_offset), s.created_at INTO v_first, o_first
        FROM @schema@.partitions p LEFT JOIN LATERAL (
            SELECT x.first_offset, x.created_at FROM @schema@.segments x
            WHERE x.partition_id = p.partition_id ORDER BY x.first_offset LIMIT 1) s ON true
        WHERE p.partition_id = p_partition;
        UPDATE @schema@.partitions p
        SET gaps = nullif(p.gaps * int8multirange(int8range(v_first, NULL)), '{}')
        FROM (SELECT x.partition_id FROM @schema@.partitions x
            WHERE x.partition_id = p_partition AND x.gaps IS NOT NULL
            FOR NO KEY UPDATE SKIP LOCKED) l
        WHERE p.partition_id = l.partition_id;
        DELETE FROM @schema@.traces t
        WHERE t.partition_id = p_partition AND t.message_offset < v_first;
        FOR i IN 1 .. cardinality(k_group) LOOP
            v_parked := 0;
            IF k_parked[i] > 0 THEN
                DELETE FROM @schema@.retries r WHERE r.partition_id = p_partition
                    AND r.group_id = k_group[i] AND r.message_offset < v_first;
                GET DIAGNOSTICS v_parked = ROW_COUNT;
            END IF;
            IF v_parked > 0 OR k_next[i] < v_first THEN
                v_lost := v_lost + v_parked + greatest(v_first - k_next[i], 0)
                    - @schema@.gap_len(k_gaps[i], k_next[i], v_first);
                k_parked[i] := k_parked[i] - v_parked;
                k_next[i] := greatest(k_next[i], v_first);
                k_touched[i] := true;
            END IF;
        END LOOP;
        IF p_groups = 0 THEN
            v_lost := o_removed;
        END IF;
    END IF;
    IF v_lost > 0 THEN
        INSERT INTO @schema@.losses (queue_id, expired, evicted)
        VALUES (p_queue.queue_id, v_lost, 0);
    END IF;
    IF true = ANY (k_touched) THEN
        o_changed := true;
        UPDATE @schema@.cursors u SET parked = x.parked
        FROM unnest(k_group, k_parked, k_live, k_touched) AS x (group_id, parked, live, touched)
        WHERE x.live AND x.touched AND u.partition_id = p_partition AND u.group_id = x.group_id;
        PERFORM FROM (
            SELECT array_agg(p_partition) AS partitions, array_agg(x.group_id) AS groups,
                array_agg(x.next) AS nexts, array_agg(x.parked) AS parkeds
            FROM unnest(k_group, k_next, k_parked, k_live, k_touched)
                AS x (group_id, next, parked, live, touched)
            WHERE x.touched AND NOT x.live
        ) t CROSS JOIN LATERAL @schema@.lease_end(
            t.partitions, t.groups, t.nexts, t.parkeds, p_now) e
        WHERE t.partitions IS NOT NULL;
    END IF;
END
$$;
