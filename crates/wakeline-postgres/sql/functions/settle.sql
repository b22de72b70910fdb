-- Settles messages under their leases: one entry per cursor and call, any number of items each, in
-- the order in which they take effect. Items that name no message of a live lease change nothing.
-- Returns one row per cursor that exists (queue is set): the number of messages that its live lease
-- holds, and its token; then, in the same row or in later ones: for settled messages (items is
-- set): the items, and which of them became dead letters (NULL: was dropped); for leases that ended
-- with something left (due_us is set): when that can be taken. There is a faster path for consumers
-- that complete all they hold, if nothing else has to be considered: one match, one UPDATE, no
-- loop; and one row per lease in the ledger. p_verdicts: 0 completed, 1 failed, 2 retry, 3 dead
-- letter. p_all: change nothing at all unless every item names a message; the rows still say which
-- do. Lock order: cursors by (partition, group); then tries queues, groups and partitions. The
-- clock is read after the locks: a lease that ended while this waited for them is over.

CREATE OR REPLACE FUNCTION @schema@.settle(
    p_partitions bigint[], p_groups text[],
    p_entries integer[], p_tokens uuid[], p_txns text[], p_verdicts smallint[], p_errors text[],
    p_all boolean)
RETURNS TABLE (
    entry integer, held bigint, lease_token uuid, strict_fencing boolean, items integer[],
    dead boolean[], queue text, partition text, namespace text, task text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_queue @schema@.queues;
    v_rest int8multirange;
    v_parked integer;
    v_count integer;
    v_dead bigint[];
    v_dropped bigint[];
    n record;
    -- Nothing is parked, delayed or failed; later also: the settled messages are all that is
    -- leased.
    v_plain boolean;
    v_drained boolean;
    -- Some group settles something for the first time.
    v_first boolean;
    -- Some queue keeps a ledger.
    v_kept boolean;
    v_failed int8multirange;
    v_released int8multirange;
    -- The cursors, in the order of their locks.
    c_tid tid[];
    c_entry integer[];
    c_partition bigint[];
    c_group integer[];
    c_queue integer[];
    c_next bigint[];
    c_parked integer[];
    c_token uuid[];
    c_until timestamptz[];
    c_set int8multirange[];
    c_lenient boolean[];
    c_name text[];
    c_due timestamptz[];
    c_secs bigint[];
    -- The unsettled messages of live leases, by index of their cursor.
    m_cursor integer[];
    m_offset bigint[];
    m_txn text[];
    -- Leases that end, and leases that continue.
    x_entry integer[] := '{}';
    x_partition bigint[] := '{}';
    x_group integer[] := '{}';
    x_next bigint[] := '{}';
    x_parked integer[] := '{}';
    k_partition bigint[] := '{}';
    k_group integer[] := '{}';
    k_set int8multirange[] := '{}';
    k_parked integer[] := '{}';
    k_failed int8multirange[] := '{}';
    k_released int8multirange[] := '{}';
BEGIN
    SELECT array_agg(s.ord), array_agg(s.partition_id), array_agg(s.group_id),
        array_agg(s.queue_id), array_agg(c.next_offset), array_agg(c.parked),
        array_agg(c.lease_token), array_agg(c.lease_until), array_agg(c.lease_set),
        array_agg(s.lenient), array_agg(s.name), array_agg(c.tid),
        bool_and(c.parked = 0 AND s.delay_secs = 0 AND s.window_secs = 0),
        bool_or(s.log_end <= c.next_offset), array_agg(s.ledger_secs), bool_or(s.ledger_secs > 0),
        bool_or(NOT s.settled)
    INTO c_entry, c_partition, c_group, c_queue, c_next, c_parked, c_token, c_until, c_set,
        c_lenient, c_name, c_tid, v_plain, v_drained, c_secs, v_kept, v_first
    FROM (
        SELECT u.ord::integer AS ord, p.partition_id, p.name, p.next_offset AS log_end, g.group_id,
            g.settled, q.queue_id, q.delay_secs, q.window_secs, q.ledger_secs,
            NOT q.strict_fencing AS lenient
        FROM unnest(p_partitions, p_groups) WITH ORDINALITY AS u (partition_id, group_name, ord)
        JOIN @schema@.partitions p ON p.partition_id = u.partition_id
        JOIN @schema@.queues q ON q.queue_id = p.queue_id
        -- LATERAL and LIMIT, here and below: whatever sizes the planner assumes, it can only look
        -- up each row by its whole key.
        CROSS JOIN LATERAL (
            SELECT g.group_id, g.settled FROM @schema@.groups g
            WHERE g.queue_id = p.queue_id AND g.name = u.group_name LIMIT 1) g
        ORDER BY p.partition_id, g.group_id
    ) s CROSS JOIN LATERAL (
        SELECT c.ctid AS tid, c.next_offset, c.parked, c.lease_token, c.lease_until, c.lease_set
        FROM @schema@.cursors c
        WHERE c.partition_id = s.partition_id AND c.group_id = s.group_id
        FOR NO KEY UPDATE
    ) c;
    v_now := @schema@.clock();
    IF v_plain AND NOT p_all AND 0 = ALL (p_verdicts) THEN
        SELECT held.entries = named.entries AND held.tokens = named.tokens
            AND held.txns = named.txns
        INTO v_plain
        FROM (
            SELECT array_agg(x.entry) AS entries, array_agg(x.token) AS tokens,
                array_agg(x.txn) AS txns
            FROM (
                SELECT e.entry, e.token, m.txn COLLATE "C" AS txn
                FROM unnest(c_entry, c_partition, c_token, c_set, c_until)
                    AS e (entry, partition_id, token, set, until)
                CROSS JOIN LATERAL unnest(e.set) AS x (run)
                CROSS JOIN LATERAL (
                    SELECT y.first_offset, y.txn_ids FROM @schema@.segments y
                    WHERE y.partition_id = e.partition_id AND y.first_offset < upper(x.run)
                        AND y.first_offset >= coalesce((
                            SELECT z.first_offset FROM @schema@.segments z
                            WHERE z.partition_id = e.partition_id
                                AND z.first_offset <= lower(x.run)
                            ORDER BY z.first_offset DESC LIMIT 1), 0)
                    ORDER BY y.first_offset
                ) g
                CROSS JOIN LATERAL unnest(g.txn_ids[
                    greatest(lower(x.run) - g.first_offset, 0)::integer + 1
                    : (upper(x.run) - g.first_offset)::integer]) AS m (txn)
                WHERE e.until > v_now
                ORDER BY e.entry, txn
            ) x
        ) held, (
            SELECT array_agg(x.entry) AS entries, array_agg(x.token) AS tokens,
                array_agg(x.txn) AS txns
            FROM (
                SELECT t.entry, t.token, t.txn
                FROM unnest(p_entries, p_tokens, p_txns COLLATE "C") AS t (entry, token, txn)
                ORDER BY t.entry, t.txn
            ) x
        ) named;
        IF v_plain THEN
            IF v_first THEN
                PERFORM @schema@.group_settled(c_group);
            END IF;
            -- The rows are locked, so their positions have not changed.
            IF v_kept THEN
                INSERT INTO @schema@.ledger_entries (partition_id, group_id, first_offset,
                    last_offset, lease_token, worker, offered_at, leased_until, ended_at,
                    expires_at, offsets, failed, expired, released)
                SELECT u.partition_id, u.group_id, lower(a.offsets), upper(a.offsets) - 1,
                    u.lease_token, u.taken_by, u.taken_at, u.lease_until, v_now,
                    v_now + make_interval(secs => x.secs), a.offsets, u.lease_failed,
                    u.lease_expired, u.lease_released
                FROM unnest(c_tid, c_secs) AS x (tid, secs)
                JOIN @schema@.cursors u ON u.ctid = x.tid
                CROSS JOIN LATERAL (SELECT coalesce(u.lease_all, u.lease_set) AS offsets) a
                WHERE x.secs > 0 AND u.taken_at IS NOT NULL;
            END IF;
            IF v_drained THEN
                SELECT array_agg(l.due_at ORDER BY l.ord) INTO c_due
                FROM @schema@.lease_end(c_partition, c_group, c_next, c_parked, v_now) l;
            ELSE
                UPDATE @schema@.cursors u SET due_at = v_now,
                    lease_token = NULL, lease_until = NULL, lease_start = NULL, lease_set = NULL,
                    lease_all = NULL, lease_failed = NULL, lease_expired = NULL,
                    lease_released = NULL
                FROM unnest(c_tid) AS x (tid) WHERE u.ctid = x.tid;
                c_due := array_fill(v_now, ARRAY[cardinality(c_tid)]);
            END IF;
            RETURN QUERY
            SELECT x.entry, cardinality(i.items)::bigint, x.token, q.strict_fencing, i.items,
                NULL::boolean[], q.name, x.name, q.namespace, q.task,
                ceil(extract(epoch FROM x.due_at - v_now) * 1000000)::bigint
            FROM unnest(c_entry, c_queue, c_token, c_name, c_due)
                AS x (entry, queue_id, token, name, due_at)
            JOIN @schema@.queues q ON q.queue_id = x.queue_id
            JOIN (
                SELECT t.entry, array_agg(t.ord::integer) AS items
                FROM unnest(p_entries) WITH ORDINALITY AS t (entry, ord)
                GROUP BY t.entry
            ) i ON i.entry = x.entry;
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
    SELECT x.entry, CASE WHEN x.until > v_now THEN (
            SELECT sum(upper(r) - lower(r))::bigint FROM unnest(x.set) AS r) END,
        CASE WHEN x.until > v_now THEN x.token END, q.strict_fencing, NULL::integer[],
        NULL::boolean[], q.name, p.name, q.namespace, q.task, NULL::bigint
    FROM unnest(c_entry, c_partition, c_queue, c_token, c_until, c_set)
        AS x (entry, partition_id, queue_id, token, until, set)
    JOIN @schema@.partitions p ON p.partition_id = x.partition_id
    JOIN @schema@.queues q ON q.queue_id = x.queue_id;
    SELECT array_agg(e.i::integer), array_agg(r.first + m.n - 1), array_agg(m.txn)
    INTO m_cursor, m_offset, m_txn
    FROM unnest(c_partition, c_set, c_until)
        WITH ORDINALITY AS e (partition_id, set, until, i)
    CROSS JOIN LATERAL unnest(e.set) AS x (run)
    CROSS JOIN LATERAL (
        SELECT y.first_offset, y.len, y.txn_ids FROM @schema@.segments y
        WHERE y.partition_id = e.partition_id AND y.first_offset < upper(x.run)
            AND y.first_offset >= coalesce((
                SELECT z.first_offset FROM @schema@.segments z
                WHERE z.partition_id = e.partition_id AND z.first_offset <= lower(x.run)
                ORDER BY z.first_offset DESC LIMIT 1), 0)
        -- Keeps the planner from merging this query into the outer one: then the lower bound would
        -- be a filter over the partition's whole log instead of a limit of the index scan.
        ORDER BY y.first_offset
    ) g
    CROSS JOIN LATERAL (
        SELECT greatest(lower(x.run), g.first_offset) AS first,
            least(upper(x.run), g.first_offset + g.len) AS last
    ) r
    CROSS JOIN LATERAL unnest(g.txn_ids[(r.first - g.first_offset)::integer + 1
        : (r.last - g.first_offset)::integer]) WITH ORDINALITY AS m (txn, n)
    WHERE e.until > v_now;
    IF p_all THEN
        SELECT coalesce(sum(cardinality(x.o_items)), 0) INTO v_count FROM @schema@.settle_match(
            c_entry, c_token, c_lenient, m_cursor, m_offset, m_txn, p_entries, p_tokens, p_txns,
            p_verdicts) x;
        IF v_count < cardinality(p_entries) THEN
            RETURN QUERY
            SELECT c_entry[x.o_cursor], NULL::bigint, NULL::uuid, NULL::boolean, x.o_items,
                NULL::boolean[], NULL::text, NULL::text, NULL::text, NULL::text, NULL::bigint
            FROM @schema@.settle_match(c_entry, c_token, c_lenient, m_cursor, m_offset, m_txn,
                p_entries, p_tokens, p_txns, p_verdicts) x;
            RETURN;
        END IF;
    END IF;
    FOR n IN SELECT * FROM @schema@.settle_match(c_entry, c_token, c_lenient, m_cursor, m_offset,
        m_txn, p_entries, p_tokens, p_txns, p_verdicts)
    LOOP
        entry := c_entry[n.o_cursor]; items := n.o_items; dead := NULL;
        v_rest := c_set[n.o_cursor] - n.o_done;
        v_failed := '{}'; v_released := '{}';
        v_parked := c_parked[n.o_cursor];
        IF v_parked > 0 AND n.o_done <> '{}' THEN
            DELETE FROM @schema@.retries r WHERE r.partition_id = c_partition[n.o_cursor]
                AND r.group_id = c_group[n.o_cursor] AND n.o_done @> r.message_offset;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            v_parked := v_parked - v_count;
        END IF;
        IF n.o_failed > 0 THEN
            SELECT q.* INTO v_queue FROM @schema@.queues q
            WHERE q.queue_id = c_queue[n.o_cursor];
            SELECT coalesce(range_agg(int8range(x.message_offset, x.message_offset + 1)), '{}')
            INTO v_released FROM unnest(n.o_items, n.o_offsets) AS x (item, message_offset)
            WHERE p_verdicts[x.item] = 2;
            SELECT v_parked + f.o_parked, f.o_dead, f.o_dropped, v_rest - f.o_named,
                f.o_named - v_released
            INTO v_parked, v_dead, v_dropped, v_rest, v_failed
            FROM @schema@.message_fail(c_partition[n.o_cursor], c_group[n.o_cursor], n.o_items,
                n.o_offsets, p_txns, p_verdicts, p_errors, v_queue, v_now) f;
            dead := ARRAY(SELECT CASE WHEN o = ANY (v_dropped) THEN NULL ELSE o = ANY (v_dead) END
                FROM unnest(n.o_offsets) AS o);
        END IF;
        RETURN NEXT;
        IF v_rest = '{}' THEN
            IF c_secs[n.o_cursor] > 0 THEN
                PERFORM @schema@.ledger_write(c_partition[n.o_cursor], c_group[n.o_cursor],
                    v_failed, v_released, NULL, v_now);
            END IF;
            x_entry := x_entry || entry;
            x_partition := x_partition || c_partition[n.o_cursor];
            x_group := x_group || c_group[n.o_cursor];
            x_next := x_next || c_next[n.o_cursor]; x_parked := x_parked || v_parked;
        ELSE
            k_partition := k_partition || c_partition[n.o_cursor];
            k_group := k_group || c_group[n.o_cursor];
            k_set := k_set || v_rest; k_parked := k_parked || v_parked;
            k_failed := k_failed || v_failed; k_released := k_released || v_released;
        END IF;
    END LOOP;
    IF v_first AND k_group || x_group <> '{}' THEN
        PERFORM @schema@.group_settled(k_group || x_group);
    END IF;
    IF k_partition <> '{}' THEN
        UPDATE @schema@.cursors u SET lease_set = k.set, parked = k.parked,
            lease_all = coalesce(u.lease_all, u.lease_set),
            lease_failed = nullif(coalesce(u.lease_failed, '{}') + k.failed, '{}'),
            lease_released = nullif(coalesce(u.lease_released, '{}') + k.released, '{}')
        FROM unnest(k_partition, k_group, k_set, k_parked, k_failed, k_released)
            AS k (partition_id, group_id, set, parked, failed, released)
        WHERE u.partition_id = k.partition_id AND u.group_id = k.group_id;
    END IF;
    IF x_entry <> '{}' THEN
        RETURN QUERY
        SELECT x_entry[l.ord], NULL::bigint, NULL::uuid, NULL::boolean, NULL::integer[],
            NULL::boolean[], NULL::text, NULL::text, NULL::text, NULL::text,
            ceil(extract(epoch FROM l.due_at - v_now) * 1000000)::bigint
        FROM @schema@.lease_end(x_partition, x_group, x_next, x_parked, v_now) l
        WHERE l.due_at IS NOT NULL;
    END IF;
END
$$;
