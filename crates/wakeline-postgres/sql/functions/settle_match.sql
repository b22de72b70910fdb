-- Matches settlements with messages: the n-th item of a transaction id names the id's n-th message,
-- lowest offset first. It uses hashing: a call may have thousands of both, and the planner, which
-- cannot know the lengths of arrays, would compare each with each. c_*: cursors with their live
-- leases; m_*: messages by cursor and offset. One row per cursor of which a message is named.
-- o_items, o_offsets: which items name a message, and which; o_done: the offsets of those whose
-- verdict is completed; o_failed: how many have another one. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.settle_match(
    c_entries integer[], c_tokens uuid[], c_lenient boolean[],
    m_cursors integer[], m_offsets bigint[], m_txns text[],
    p_entries integer[], p_tokens uuid[], p_txns text[], p_verdicts smallint[])
RETURNS TABLE (
    o_cursor integer, o_items integer[], o_offsets bigint[], o_done int8multirange,
    o_failed integer)
LANGUAGE plpgsql STABLE
SET enable_nestloop = off SET enable_hashjoin = on SET enable_sort = on AS $$
BEGIN
    RETURN QUERY
    SELECT item.i, array_agg(item.ord ORDER BY item.ord),
        array_agg(message.message_offset ORDER BY item.ord),
        coalesce(range_agg(int8range(message.message_offset, message.message_offset + 1))
            FILTER (WHERE item.verdict = 0), '{}'),
        count(*) FILTER (WHERE item.verdict <> 0)::integer
    FROM (
        SELECT e.i::integer AS i, t.txn, t.verdict, t.ord::integer AS ord,
            row_number() OVER (PARTITION BY e.i, t.txn ORDER BY t.ord) AS nth
        FROM unnest(p_entries, p_tokens, p_txns COLLATE "C", p_verdicts)
            WITH ORDINALITY AS t (entry, token, txn, verdict, ord)
        JOIN unnest(c_entries, c_tokens, c_lenient)
            WITH ORDINALITY AS e (entry, token, lenient, i) ON e.entry = t.entry
        WHERE t.token = e.token OR (t.token IS NULL AND e.lenient)
    ) item
    JOIN (
        SELECT m.i, m.txn, m.message_offset,
            row_number() OVER (PARTITION BY m.i, m.txn ORDER BY m.message_offset) AS nth
        FROM unnest(m_cursors, m_offsets, m_txns COLLATE "C") AS m (i, message_offset, txn)
    ) message ON message.i = item.i AND message.txn = item.txn AND message.nth = item.nth
    GROUP BY item.i;
END
$$;
