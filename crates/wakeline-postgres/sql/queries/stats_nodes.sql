-- Returns statistics of nodes from $1 to $2, in steps of $3 seconds.
SELECT to_timestamp(floor(extract(epoch FROM s.bucket) / $3::bigint) * $3::bigint), s.node,
    sum(s.cpu)::bigint, max(s.memory), max(s.waiters), sum(s.store_errors)::bigint
FROM @schema@.node_stats s WHERE s.bucket >= $1 AND s.bucket < $2
GROUP BY 1, 2 ORDER BY 1, 2
