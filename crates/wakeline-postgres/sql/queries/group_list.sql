-- Returns groups with their lag: all, or those of one name. The age of the oldest message that is
-- unread or unsettled is read from its segment, one index descent for each cursor that has
-- something to do.
SELECT q.name, g.name, g.mode, g.from_at, g.created_at, count(c.partition_id),
    count(c.partition_id) FILTER (WHERE c.lag > 0), coalesce(sum(c.lag), 0)::bigint,
    count(c.partition_id) FILTER (WHERE c.lease_until > n.now_at), min(c.oldest_at), max(n.now_at), g.polled_at,
    CASE WHEN i.idle_at <= max(n.now_at) THEN i.idle_at END
FROM (SELECT @schema@.clock() AS now_at) n
CROSS JOIN @schema@.groups g
JOIN @schema@.queues q ON q.queue_id = g.queue_id
CROSS JOIN LATERAL (SELECT @schema@.group_idle_at(
    g.polled_at, g.settled, q.group_idle_secs) AS idle_at) i
LEFT JOIN LATERAL (
    SELECT k.partition_id, k.lease_until, s.created_at AS oldest_at,
        p.next_offset - k.next_offset + k.parked
        + coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(
            k.lease_set * int8multirange(int8range(k.lease_start, NULL))) AS r), 0)
        - coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(k.gaps) AS r), 0) AS lag
    FROM @schema@.partitions p
    JOIN @schema@.cursors k ON k.partition_id = p.partition_id AND k.group_id = g.group_id
    LEFT JOIN LATERAL (
        SELECT s.created_at FROM (
            SELECT least(lower(k.lease_set), (
                    SELECT r.message_offset FROM @schema@.retries r
                    WHERE k.parked > 0 AND r.partition_id = k.partition_id
                        AND r.group_id = k.group_id
                    ORDER BY r.message_offset LIMIT 1),
                CASE WHEN k.next_offset < p.next_offset THEN k.next_offset END) AS first
        ) o CROSS JOIN LATERAL (
            SELECT x.created_at FROM @schema@.segments x
            WHERE k.due_at IS NOT NULL AND o.first IS NOT NULL
                AND x.partition_id = k.partition_id AND x.first_offset <= o.first
            ORDER BY x.first_offset DESC LIMIT 1
        ) s
    ) s ON true
    WHERE p.queue_id = q.queue_id
) c ON true
WHERE $1::text IS NULL OR g.name = $1
GROUP BY q.queue_id, g.group_id, i.idle_at
ORDER BY g.name, q.name
