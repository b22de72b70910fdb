-- Returns to whom the message at an offset was delivered, when, and how that ended: 0 open, 1
-- acked, 2 failed, 3 expired, 4 released. A lease that has expired is shown as it will be recorded
-- once its cursor is processed again.
SELECT g.name, e.worker, e.offered_at, e.leased_until, e.ended_at, CASE
        WHEN e.failed @> $2::bigint THEN 2
        WHEN e.expired @> $2::bigint THEN 3
        WHEN e.released @> $2::bigint THEN 4
        WHEN e.open @> $2::bigint THEN CASE WHEN e.ended_at IS NULL THEN 0 ELSE 3 END
        ELSE 1 END::smallint,
    e.first_offset, e.last_offset,
    (SELECT sum(upper(r) - lower(r)) FROM unnest(e.offsets) AS r)::bigint
FROM (
    SELECT x.group_id, x.worker, x.offered_at, x.leased_until, x.ended_at, x.first_offset,
        x.last_offset, x.offsets, x.failed, x.expired, x.released, NULL::int8multirange AS open
    FROM @schema@.ledger_entries x
    WHERE x.partition_id = $1 AND x.first_offset BETWEEN $2::bigint - 10000 AND $2::bigint
        AND x.last_offset <= x.first_offset + 10000 AND x.offsets @> $2::bigint
        AND x.expires_at > @schema@.clock()
    UNION ALL
    SELECT x.group_id, x.worker, x.offered_at, x.leased_until, x.ended_at, x.first_offset,
        x.last_offset, x.offsets, x.failed, x.expired, x.released, NULL
    FROM @schema@.ledger_entries x
    WHERE x.partition_id = $1 AND x.last_offset > x.first_offset + 10000
        AND x.offsets @> $2::bigint AND x.expires_at > @schema@.clock()
    UNION ALL
    SELECT c.group_id, c.taken_by, c.taken_at, c.lease_until,
        CASE WHEN c.lease_until <= n.now_at THEN c.lease_until END, lower(a.offsets),
        upper(a.offsets) - 1, a.offsets, c.lease_failed, c.lease_expired, c.lease_released,
        c.lease_set
    FROM (SELECT @schema@.clock() AS now_at) n
    CROSS JOIN @schema@.partitions p
    JOIN @schema@.queues q ON q.queue_id = p.queue_id
    JOIN @schema@.cursors c ON c.partition_id = p.partition_id
    CROSS JOIN LATERAL (SELECT coalesce(c.lease_all, c.lease_set) AS offsets) a
    WHERE p.partition_id = $1 AND c.lease_token IS NOT NULL AND c.taken_at IS NOT NULL
        AND a.offsets @> $2::bigint
        AND (c.lease_until > n.now_at OR (q.ledger_secs > 0
            AND c.lease_until + make_interval(secs => q.ledger_secs) > n.now_at))
) e
JOIN @schema@.groups g ON g.group_id = e.group_id
ORDER BY e.offered_at, e.ended_at, g.name
