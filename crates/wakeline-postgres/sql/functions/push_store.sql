-- Gives messages their offsets and stores them, one row per chunk. The arrays of the items are cut
-- up by the chunks; p_traces and p_producers are empty if no item has any.
-- p_firsts: by slot, the offset of its first message; -1 for slots that are not stored.
-- Called by: push, transact, under the partitions' locks.

CREATE OR REPLACE FUNCTION @schema@.push_store(
    p_partitions bigint[], p_lens integer[], p_firsts bigint[], p_ats timestamptz[],
    p_chunk_slots integer[], p_chunk_starts integer[], p_chunk_lens integer[],
    p_chunk_items integer[], p_chunk_txns text[], p_chunk_bodies bytea[],
    p_ids uuid[], p_ends integer[], p_traces uuid[], p_producers text[])
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.partitions p
    SET next_offset = x.first + x.len, idle = false, last_push_at = x.at
    FROM unnest(p_partitions, p_lens, p_firsts, p_ats) AS x (partition_id, len, first, at)
    WHERE p.partition_id = x.partition_id AND x.first >= 0;
    INSERT INTO @schema@.segments (partition_id, first_offset, len, created_at, ids, ends,
        txn_ids, trace_ids, producers, body)
    SELECT p_partitions[c.slot], p_firsts[c.slot] + c.start, c.len, p_ats[c.slot],
        p_ids[c.item : c.item + c.len - 1], p_ends[c.item : c.item + c.len - 1],
        string_to_array(c.txns, E'\n'),
        CASE WHEN p_traces <> '{}' THEN p_traces[c.item : c.item + c.len - 1] END,
        CASE WHEN p_producers <> '{}' THEN p_producers[c.item : c.item + c.len - 1] END,
        c.body
    FROM unnest(p_chunk_slots, p_chunk_starts, p_chunk_lens, p_chunk_items, p_chunk_txns,
        p_chunk_bodies) AS c (slot, start, len, item, txns, body)
    WHERE p_firsts[c.slot] >= 0;
END
$$;
