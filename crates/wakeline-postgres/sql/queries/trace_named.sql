-- Returns the traces of a name with their messages, the newest first.
SELECT t.trace_id, t.event_type, t.group_name, t.worker,
    ARRAY(SELECT n.name FROM @schema@.trace_names n WHERE n.trace_no = t.trace_no ORDER BY n.name),
    t.data, t.created_at,
    q.name, p.name, p.partition_id, s.txn_ids[s.n], s.ids[s.n],
    substring(s.body FROM coalesce(s.ends[s.n - 1], 0) + 1
        FOR s.ends[s.n] - coalesce(s.ends[s.n - 1], 0))
FROM @schema@.trace_names x
JOIN @schema@.traces t USING (trace_no)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL (
    SELECT g.*, (t.message_offset - g.first_offset + 1)::integer AS n FROM @schema@.segments g
    WHERE g.partition_id = t.partition_id AND g.first_offset <= t.message_offset
    ORDER BY g.first_offset DESC LIMIT 1
) s
WHERE x.name = $1 AND s.n <= s.len
ORDER BY x.trace_no DESC LIMIT $2 OFFSET $3
