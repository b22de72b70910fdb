-- Locks the cursors of some settlements and finds the offsets that these name. A transaction id is
-- looked up among the unsettled messages of the live lease only: the n-th item of an id names the
-- id's n-th message, lowest offset first. One row per cursor that exists.
-- o_items, o_offsets: which items name a message, and which; o_done: the offsets of those whose
-- verdict is completed; o_failed: how many have another one.
-- Called by: settle, transact. Lock order: cursors by (partition, group). The clock is read after
-- the locks, so a lease that ended while this waited is over.

CREATE OR REPLACE FUNCTION @schema@.settle_resolve(
    p_partitions bigint[], p_groups text[],
    p_entries integer[], p_tokens uuid[], p_txns text[], p_verdicts smallint[])
RETURNS TABLE (
    o_entry integer, o_cursor @schema@.cursors, o_queue @schema@.queues, o_partition text,
    o_now timestamptz, o_live boolean, o_held bigint, o_items integer[], o_offsets bigint[],
    o_done int8multirange, o_failed integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
    c_entry integer[];
    c_cursor @schema@.cursors[];
    c_queue @schema@.queues[];
    c_partition text[];
BEGIN
    SELECT array_agg(l.ord), array_agg(l.c), array_agg(l.q), array_agg(l.name)
    INTO c_entry, c_cursor, c_queue, c_partition
    FROM (
        SELECT u.ord::integer AS ord, c, q, p.name
        FROM unnest(p_partitions, p_groups) WITH ORDINALITY AS u (partition_id, group_name, ord)
        JOIN @schema@.partitions p ON p.partition_id = u.partition_id
        JOIN @schema@.queues q ON q.queue_id = p.queue_id
        JOIN @schema@.groups g ON g.queue_id = p.queue_id AND g.name = u.group_name
        JOIN @schema@.cursors c ON c.partition_id = p.partition_id AND c.group_id = g.group_id
        ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE OF c
    ) l;
    v_now := @schema@.clock();
    RETURN QUERY
    WITH e AS MATERIALIZED (
        SELECT i, c_entry[i] AS entry, (c_cursor[i]).partition_id, (c_cursor[i]).lease_set,
            (c_cursor[i]).lease_token, coalesce((c_cursor[i]).lease_until > v_now, false) AS live,
            NOT (c_queue[i]).strict_fencing AS lenient
        FROM generate_series(1, cardinality(c_entry)) AS i
    ), item AS (
        SELECT e.i, t.txn, t.verdict, t.ord::integer AS ord,
            row_number() OVER (PARTITION BY e.i, t.txn ORDER BY t.ord) AS nth
        FROM unnest(p_entries, p_tokens, p_txns, p_verdicts)
            WITH ORDINALITY AS t (entry, token, txn, verdict, ord)
        JOIN e ON e.entry = t.entry
        WHERE e.live AND (t.token = e.lease_token OR (t.token IS NULL AND e.lenient))
    ), message AS (
        SELECT e.i, m.txn, r.first + m.n - 1 AS message_offset,
            row_number() OVER (PARTITION BY e.i, m.txn ORDER BY r.first + m.n) AS nth
        FROM e
        CROSS JOIN LATERAL unnest(e.lease_set) AS x (run)
        CROSS JOIN LATERAL (
            SELECT y.first_offset, y.len, y.txn_ids FROM @schema@.segments y
            WHERE y.partition_id = e.partition_id AND y.first_offset < upper(x.run)
                AND y.first_offset >= coalesce((
                    SELECT z.first_offset FROM @schema@.segments z
                    WHERE z.partition_id = e.partition_id AND z.first_offset <= lower(x.run)
                    ORDER BY z.first_offset DESC LIMIT 1), 0)
        ) g
        CROSS JOIN LATERAL (
            SELECT greatest(lower(x.run), g.first_offset) AS first,
                least(upper(x.run), g.first_offset + g.len) AS last
        ) r
        CROSS JOIN LATERAL unnest(g.txn_ids[(r.first - g.first_offset)::integer + 1
            : (r.last - g.first_offset)::integer]) WITH ORDINALITY AS m (txn, n)
        WHERE e.live
    ), named AS (
        SELECT item.i, array_agg(item.ord ORDER BY item.ord) AS items,
            array_agg(message.message_offset ORDER BY item.ord) AS offsets,
            range_agg(int8range(message.message_offset, message.message_offset + 1))
                FILTER (WHERE item.verdict = 0) AS done,
            count(*) FILTER (WHERE item.verdict <> 0)::integer AS failed
        FROM item
        JOIN message ON message.i = item.i AND message.txn = item.txn AND message.nth = item.nth
        GROUP BY item.i
    )
    SELECT e.entry, c_cursor[e.i], c_queue[e.i], c_partition[e.i], v_now, e.live,
        (SELECT sum(upper(x) - lower(x))::bigint FROM unnest(e.lease_set) AS x),
        coalesce(named.items, '{}'), coalesce(named.offsets, '{}'), coalesce(named.done, '{}'),
        coalesce(named.failed, 0)
    FROM e LEFT JOIN named ON named.i = e.i;
END
$$;
