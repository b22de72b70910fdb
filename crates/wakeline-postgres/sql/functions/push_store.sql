-- Assigns messages their offsets and stores them, one row per chunk. The arrays of the items are
-- split by the chunks; p_traces and p_producers are empty if no item has any. p_firsts: by slot,
-- the offset of its first message; -1 for slots that are not stored. -2 and less for messages that
-- are held: they go to scheduled, due since now, and the partition's last push ensures that they
-- come before later pushes, even if the clock were set back. Runs under the partitions' locks.

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
    IF -1 > ANY (p_firsts) THEN
        UPDATE @schema@.partitions p SET last_push_at = x.at
        FROM unnest(p_partitions, p_lens, p_firsts, p_ats) AS x (partition_id, len, first, at)
        WHERE p.partition_id = x.partition_id AND x.first < -1 AND x.len > 0;
        INSERT INTO @schema@.scheduled (queue_id, partition_id, deliver_at, id, txn_id, trace_id,
            producer, scheduled_at, payload, held)
        SELECT p.queue_id, p.partition_id, i.at, p_ids[i.ord], i.txns[i.n], p_traces[i.ord],
            p_producers[i.ord], i.at,
            substring(i.body FROM i.body_start + 1 FOR p_ends[i.ord] - i.body_start), true
        FROM (
            SELECT c.item + n - 1 AS ord, p_partitions[c.slot] AS partition_id, n,
                p_ats[c.slot] AS at, string_to_array(c.txns, E'\n') AS txns, c.body,
                CASE WHEN n = 1 THEN 0 ELSE p_ends[c.item + n - 2] END AS body_start
            FROM unnest(p_chunk_slots, p_chunk_lens, p_chunk_items, p_chunk_txns, p_chunk_bodies)
                AS c (slot, len, item, txns, body)
            CROSS JOIN LATERAL generate_series(1, c.len) AS n
            WHERE p_firsts[c.slot] < -1
        ) i JOIN @schema@.partitions p ON p.partition_id = i.partition_id
        ORDER BY i.ord;
    END IF;
END
$$;
