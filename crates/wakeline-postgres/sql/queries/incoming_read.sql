-- Returns the next rows to take over, at most $2 of them and about $3 bytes, but at least one, with
-- the lanes and limits of their queues; rows of some queues ($1), which are full, are skipped.
SELECT i.seq, i.queue, i.partition, i.payload::text AS payload, i.transaction_id, i.deliver_at,
    i.application, i.event_type, i.event_id, i.channels, i.message_id,
    coalesce(q.lanes, 0) AS lanes,
    coalesce(q.len_max > 0 OR q.partition_len_max > 0, false) AS limited
FROM (
    SELECT n.seq, sum(n.bytes) OVER (ORDER BY n.seq) - n.bytes AS bytes_before
    FROM (
        SELECT x.seq, x.bytes FROM @schema@.incoming x
        WHERE x.refused IS NULL AND (x.queue IS NULL OR x.queue <> ALL ($1))
        ORDER BY x.seq LIMIT $2
    ) n
) n
JOIN @schema@.incoming i ON i.seq = n.seq
LEFT JOIN @schema@.queues q ON q.name = i.queue
WHERE n.bytes_before < $3::bigint
ORDER BY i.seq
