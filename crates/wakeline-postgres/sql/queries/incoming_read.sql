-- The next rows to take over, with what their queues say of lanes and limits; those of some queues
-- ($1), which are full, are passed over. Called by: IncomingPump.
SELECT i.seq, i.queue, i.partition, i.payload::text AS payload, i.transaction_id, i.application,
    i.event_type, i.event_id, i.channels, i.message_id, coalesce(q.lanes, 0) AS lanes,
    coalesce(q.len_max > 0 OR q.partition_len_max > 0, false) AS limited
FROM @schema@.incoming i
LEFT JOIN @schema@.queues q ON q.name = i.queue
WHERE i.refused IS NULL AND (i.queue IS NULL OR i.queue <> ALL ($1))
ORDER BY i.seq LIMIT 500
