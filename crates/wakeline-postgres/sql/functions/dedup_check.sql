-- Compares the items of one slot of a push with the ids that the node does not know. See
-- push_check. o_known_txns: ids that exist, with the first message's id and offset; an id that the
-- node believed to exist but that has left the window is returned with NULLs. o_delta_*: the
-- segments after p_to, for the node to cache; their ids are joined by line feeds, which no id
-- contains. Runs under the partition's lock. Reads only.

CREATE OR REPLACE FUNCTION @schema@.dedup_check(
    p_slot integer, p_partition bigint, p_end bigint, p_window_from timestamptz,
    p_from bigint, p_to bigint, p_known_slots integer[], p_known_offsets bigint[],
    p_known_txns text[], p_chunk_slots integer[], p_chunk_txns text[],
    OUT o_state smallint, OUT o_known_txns text[], OUT o_known_ids uuid[],
    OUT o_known_offsets bigint[], OUT o_delta_firsts bigint[], OUT o_delta_ats timestamptz[],
    OUT o_delta_txns text[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_older boolean := false;
    v_txns text[];
    v_low bigint;
    v_hit_txns text[];
    v_hit_ids uuid[];
    v_hit_offsets bigint[];
BEGIN
    o_state := 0;
    IF p_known_slots <> '{}' THEN
        SELECT array_agg(k.txn), array_agg(CASE WHEN s.known THEN s.id END),
            array_agg(CASE WHEN s.known THEN k.message_offset END),
            CASE WHEN bool_and(coalesce(s.known, false)) IS FALSE THEN 4 ELSE 0 END
        INTO o_known_txns, o_known_ids, o_known_offsets, o_state
        FROM unnest(p_known_slots, p_known_offsets, p_known_txns) AS k (slot, message_offset, txn)
        LEFT JOIN LATERAL (
            SELECT s.ids[(k.message_offset - s.first_offset)::integer + 1] AS id,
                s.created_at >= p_window_from
                    AND s.txn_ids[(k.message_offset - s.first_offset)::integer + 1] = k.txn AS known
            FROM @schema@.segments s
            WHERE s.partition_id = p_partition AND s.first_offset <= k.message_offset
            ORDER BY s.first_offset DESC LIMIT 1
        ) s ON true
        WHERE k.slot = p_slot AND k.message_offset >= 0;
    END IF;
    IF p_from > 0 THEN
        SELECT s.created_at >= p_window_from INTO v_older FROM @schema@.segments s
        WHERE s.partition_id = p_partition AND s.first_offset < p_from
        ORDER BY s.first_offset DESC LIMIT 1;
    END IF;
    IF p_end <= p_to AND NOT coalesce(v_older, false) THEN
        RETURN;
    END IF;
    -- Reading the newest 65 segments is enough to know whether there are more than 64.
    SELECT array_agg(d.first_offset ORDER BY d.first_offset),
        array_agg(d.created_at ORDER BY d.first_offset),
        array_agg(array_to_string(d.txn_ids, E'\n') ORDER BY d.first_offset)
    INTO o_delta_firsts, o_delta_ats, o_delta_txns
    FROM (
        SELECT s.first_offset, s.created_at, s.txn_ids FROM @schema@.segments s
        WHERE s.partition_id = p_partition AND s.first_offset >= p_to
        ORDER BY s.first_offset DESC LIMIT 65
    ) d WHERE d.created_at >= p_window_from;
    IF cardinality(o_delta_firsts) > 64 THEN
        o_state := 3;
        o_delta_firsts := NULL; o_delta_ats := NULL; o_delta_txns := NULL;
        RETURN;
    END IF;
    SELECT array_agg(t.txn) INTO v_txns
    FROM unnest(p_chunk_slots, p_chunk_txns) AS c (slot, txns)
    CROSS JOIN LATERAL unnest(string_to_array(c.txns, E'\n')) AS t (txn)
    WHERE c.slot = p_slot;
    IF coalesce(v_older, false) THEN
        v_low := @schema@.offset_since(p_partition, p_from, p_window_from);
    END IF;
    SELECT array_agg(h.txn), array_agg(h.id), array_agg(h.message_offset)
    INTO v_hit_txns, v_hit_ids, v_hit_offsets
    FROM (
        SELECT DISTINCT ON (t.txn) t.txn, s.ids[t.n] AS id,
            s.first_offset + t.n - 1 AS message_offset
        FROM (
            SELECT d.* FROM @schema@.segments d
            WHERE d.partition_id = p_partition AND d.first_offset >= p_to
            UNION ALL
            SELECT o.* FROM @schema@.segments o
            WHERE o.partition_id = p_partition AND o.first_offset >= v_low
                AND o.first_offset < p_from
        ) s
        CROSS JOIN LATERAL unnest(s.txn_ids) WITH ORDINALITY AS t (txn, n)
        WHERE s.created_at >= p_window_from AND s.txn_ids && v_txns AND t.txn = ANY (v_txns)
        ORDER BY t.txn, s.first_offset, t.n
    ) h;
    IF v_hit_txns IS NOT NULL THEN
        o_state := 4;
        o_known_txns := coalesce(o_known_txns, '{}') || v_hit_txns;
        o_known_ids := coalesce(o_known_ids, '{}') || v_hit_ids;
        o_known_offsets := coalesce(o_known_offsets, '{}') || v_hit_offsets;
    END IF;
END
$$;
