-- Returns partitions in which a group is behind by at least a time ($3, microseconds), the oldest
-- message first. Cursors with nothing to do are not read: they have no due_at.
SELECT q.name, g.name, p.name, p.partition_id, p.next_offset, p.next_offset - c.next_offset
        + c.parked + coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(
            c.lease_set * int8multirange(int8range(c.lease_start, NULL))) AS r), 0)::bigint
        - coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(c.gaps) AS r), 0)::bigint,
    s.created_at, CASE WHEN c.lease_until > n.now_at THEN c.lease_until END, n.now_at,
    c.taken_at, c.taken_by
FROM (SELECT @schema@.clock() AS now_at) n
CROSS JOIN @schema@.groups g
JOIN @schema@.queues q ON q.queue_id = g.queue_id
JOIN @schema@.cursors c ON c.group_id = g.group_id AND c.due_at IS NOT NULL
JOIN @schema@.partitions p ON p.partition_id = c.partition_id
CROSS JOIN LATERAL (
    SELECT least(lower(c.lease_set), (
            SELECT r.message_offset FROM @schema@.retries r
            WHERE c.parked > 0 AND r.partition_id = c.partition_id AND r.group_id = c.group_id
            ORDER BY r.message_offset LIMIT 1),
        CASE WHEN c.next_offset < p.next_offset THEN c.next_offset END) AS first
) o
LEFT JOIN LATERAL (
    SELECT s.created_at FROM @schema@.segments s
    WHERE o.first IS NOT NULL AND s.partition_id = c.partition_id AND s.first_offset <= o.first
    ORDER BY s.first_offset DESC LIMIT 1
) s ON true
WHERE ($1::text IS NULL OR g.name = $1) AND ($2::text IS NULL OR q.name = $2)
    AND s.created_at <= n.now_at - $3::bigint * interval '1 microsecond'
ORDER BY s.created_at, p.partition_id, g.name LIMIT $4 OFFSET $5
