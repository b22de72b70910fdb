-- Groups with their lag: all, or those of one name. Called by: QueueAdmin::groups.
SELECT q.name, g.name, g.mode, g.from_at, g.created_at, count(c.partition_id),
    count(c.partition_id) FILTER (WHERE c.lag > 0), coalesce(sum(c.lag), 0)::bigint,
    count(c.partition_id) FILTER (WHERE c.lease_until > @schema@.clock())
FROM @schema@.groups g
JOIN @schema@.queues q USING (queue_id)
LEFT JOIN LATERAL (
    SELECT k.partition_id, k.lease_until, p.next_offset - k.next_offset + k.parked
        + coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(
            k.lease_set * int8multirange(int8range(k.lease_start, NULL))) AS r), 0) AS lag
    FROM @schema@.partitions p
    JOIN @schema@.cursors k ON k.partition_id = p.partition_id AND k.group_id = g.group_id
    WHERE p.queue_id = q.queue_id
) c ON true
WHERE $1::text IS NULL OR g.name = $1
GROUP BY q.queue_id, g.group_id
ORDER BY g.name, q.name
