-- Returns what the groups of a queue have lost: what housekeeping has summed up, and what it has
-- not yet.
SELECT coalesce(h.expired, 0) + l.expired, coalesce(h.evicted, 0) + l.evicted,
    coalesce(h.dropped, 0) + l.dropped
FROM @schema@.queues q
LEFT JOIN @schema@.housekeeping h USING (queue_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.expired), 0)::bigint AS expired,
        coalesce(sum(x.evicted), 0)::bigint AS evicted,
        coalesce(sum(x.dropped), 0)::bigint AS dropped
    FROM @schema@.losses x WHERE x.queue_id = q.queue_id) l
WHERE q.name = $1
