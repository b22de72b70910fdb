-- Returns the traces of the newest message of a transaction id, the oldest first.
SELECT t.trace_id, t.event_type, t.group_name, t.worker,
    ARRAY(SELECT n.name FROM @schema@.trace_names n WHERE n.trace_no = t.trace_no ORDER BY n.name),
    t.data, t.created_at
FROM @schema@.partitions p
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL (
    SELECT g.first_offset, g.txn_ids FROM @schema@.segments g
    WHERE g.partition_id = p.partition_id AND g.txn_ids @> ARRAY[$2::text]
    ORDER BY g.first_offset DESC LIMIT 1
) s
CROSS JOIN LATERAL (
    SELECT x.n FROM unnest(s.txn_ids) WITH ORDINALITY AS x (txn, n)
    WHERE x.txn = $2::text ORDER BY x.n DESC LIMIT 1
) m
JOIN @schema@.traces t
    ON t.partition_id = p.partition_id AND t.message_offset = s.first_offset + m.n - 1
WHERE p.partition_id = $1
ORDER BY t.trace_no
