-- Returns the newest message of a transaction id in a partition.
SELECT q.name, p.name, s.first_offset + t.n - 1, s.ids[t.n], s.trace_ids[t.n],
    substring(s.body FROM coalesce(s.ends[t.n - 1], 0) + 1
        FOR s.ends[t.n] - coalesce(s.ends[t.n - 1], 0)),
    s.created_at, s.producers[t.n]
FROM @schema@.partitions p
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL (
    SELECT g.* FROM @schema@.segments g
    WHERE g.partition_id = p.partition_id AND g.txn_ids @> ARRAY[$2::text]
    ORDER BY g.first_offset DESC LIMIT 1
) s
CROSS JOIN LATERAL (
    SELECT x.n::integer AS n FROM unnest(s.txn_ids) WITH ORDINALITY AS x (txn, n)
    WHERE x.txn = $2::text ORDER BY x.n DESC LIMIT 1
) t
WHERE p.partition_id = $1
