-- Compares the items of one slot of a push with the messages that are scheduled in its partition.
-- As dedup_check; a scheduled message has no offset: it is represented by -1. p_keys: by item of
-- the whole call, the timer that it would replace; a message of that timer does not count. Empty
-- for pushes. p_chunk_items: by chunk, the index of its first item. Runs under the partition's
-- lock. Reads only.

CREATE OR REPLACE FUNCTION @schema@.scheduled_known(
    p_slot integer, p_partition bigint, p_known_slots integer[], p_known_offsets bigint[],
    p_known_txns text[], p_chunk_slots integer[], p_chunk_items integer[], p_chunk_txns text[],
    p_keys text[],
    OUT o_state smallint, OUT o_txns text[], OUT o_ids uuid[], OUT o_offsets bigint[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    h record;
BEGIN
    o_state := 0; o_txns := '{}'; o_ids := '{}'; o_offsets := '{}';
    IF -1 = ANY (p_known_offsets) THEN
        SELECT coalesce(array_agg(k.txn), '{}'), coalesce(array_agg(s.id), '{}'),
            coalesce(array_agg(CASE WHEN s.id IS NOT NULL THEN -1 END), '{}'),
            CASE WHEN bool_and(s.id IS NOT NULL) IS FALSE THEN 4 ELSE 0 END
        INTO o_txns, o_ids, o_offsets, o_state
        FROM unnest(p_known_slots, p_known_offsets, p_known_txns) AS k (slot, message_offset, txn)
        LEFT JOIN LATERAL (
            SELECT s.id FROM @schema@.scheduled s
            WHERE s.partition_id = p_partition AND s.txn_id = k.txn
            ORDER BY s.scheduled_id LIMIT 1) s ON true
        WHERE k.slot = p_slot AND k.message_offset = -1;
    END IF;
    SELECT array_agg(t.txn) AS txns, array_agg(s.id) AS ids INTO h
    FROM unnest(p_chunk_slots, p_chunk_items, p_chunk_txns) AS c (slot, item, txns)
    CROSS JOIN LATERAL unnest(string_to_array(c.txns, E'\n')) WITH ORDINALITY AS t (txn, n)
    CROSS JOIN LATERAL (
        SELECT s.id FROM @schema@.scheduled s
        WHERE s.partition_id = p_partition AND s.txn_id = t.txn
            AND (s.timer_key = p_keys[c.item + t.n - 1]) IS NOT TRUE
        ORDER BY s.scheduled_id LIMIT 1) s
    WHERE c.slot = p_slot;
    IF h.txns IS NOT NULL THEN
        o_state := 4;
        o_txns := o_txns || h.txns; o_ids := o_ids || h.ids;
        o_offsets := o_offsets || array_fill(-1::bigint, ARRAY[cardinality(h.txns)]);
    END IF;
END
$$;
