-- Copies messages to the dead letters, which own their data. Of a corrupt row it copies what is
-- readable: an error here would block the queue. Runs under the cursor's lock.

CREATE OR REPLACE FUNCTION @schema@.dead_letter_add(
    p_partition bigint, p_group integer, p_offsets bigint[], p_failures integer[],
    p_errors text[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO @schema@.dead_letters (queue_id, partition_id, partition, group_name,
        message_offset, id, txn_id, trace_id, producer, payload, created_at, failures, error,
        failed_at)
    SELECT p.queue_id, p.partition_id, p.name, g.name, m.message_offset,
        coalesce(s.ids[m.n], '00000000-0000-0000-0000-000000000000'),
        coalesce(s.txn_ids[m.n], '?'), s.trace_ids[m.n], s.producers[m.n],
        CASE WHEN m.n = 1 OR s.ends[m.n - 1] >= 0
            THEN CASE WHEN s.ends[m.n] > coalesce(s.ends[m.n - 1], 0)
                THEN substring(s.body FROM coalesce(s.ends[m.n - 1], 0) + 1
                    FOR s.ends[m.n] - coalesce(s.ends[m.n - 1], 0))
                ELSE 'null' END
            ELSE 'null' END,
        s.created_at, m.failures, m.error, p_now
    FROM (
        SELECT i.*, h.first_offset, (i.message_offset - h.first_offset + 1)::integer AS n
        FROM unnest(p_offsets, p_failures, p_errors)
            WITH ORDINALITY AS i (message_offset, failures, error, ord)
        CROSS JOIN LATERAL (
            SELECT h.first_offset FROM @schema@.segments h
            WHERE h.partition_id = p_partition AND h.first_offset <= i.message_offset
            ORDER BY h.first_offset DESC LIMIT 1
        ) h
    ) m
    JOIN @schema@.segments s
        ON s.partition_id = p_partition AND s.first_offset = m.first_offset
    JOIN @schema@.partitions p ON p.partition_id = p_partition
    JOIN @schema@.groups g ON g.group_id = p_group
    ORDER BY m.ord;
END
$$;
