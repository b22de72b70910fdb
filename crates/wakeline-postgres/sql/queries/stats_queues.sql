-- Returns statistics of queues from $1 to $2, in steps of $3 seconds: of one queue ($4) or all,
-- nodes separately ($5) or together.
SELECT to_timestamp(x.at), x.queue, CASE WHEN $5 THEN x.node END,
    sum(x.push_requests)::bigint, sum(x.push_messages)::bigint, sum(x.push_duplicates)::bigint,
    sum(x.pop_requests)::bigint, sum(x.pop_messages)::bigint, sum(x.pop_empty)::bigint,
    sum(x.ack_requests)::bigint, sum(x.ack_success)::bigint, sum(x.ack_failed)::bigint,
    sum(x.dead_letters)::bigint, sum(x.transactions)::bigint, sum(x.lag_sum)::bigint,
    max(x.lag_max)::bigint, sum(x.expired)::bigint, sum(x.evicted)::bigint,
    sum(x.dropped)::bigint, sum(x.removed)::bigint, sum(x.parked)::bigint
FROM (
    SELECT floor(extract(epoch FROM s.bucket) / $3::bigint) * $3::bigint AS at, s.queue, s.node,
        sum(s.push_requests) AS push_requests, sum(s.push_messages) AS push_messages,
        sum(s.push_duplicates) AS push_duplicates, sum(s.pop_requests) AS pop_requests,
        sum(s.pop_messages) AS pop_messages, sum(s.pop_empty) AS pop_empty, sum(s.ack_requests) AS
        ack_requests, sum(s.ack_success) AS ack_success, sum(s.ack_failed) AS ack_failed,
        sum(s.dead_letters) AS dead_letters, sum(s.transactions) AS transactions, sum(s.lag_sum)
        AS lag_sum, max(s.lag_max) AS lag_max, sum(s.expired) AS expired, sum(s.evicted) AS
        evicted, sum(s.dropped) AS dropped, sum(s.removed) AS removed, max(s.parked) AS parked
    FROM @schema@.queue_stats s
    WHERE s.bucket >= $1 AND s.bucket < $2 AND ($4::text IS NULL OR s.queue = $4)
    GROUP BY 1, 2, 3
) x
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
