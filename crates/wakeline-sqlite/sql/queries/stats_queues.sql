-- Statistics of queues from ?1 to ?2, in steps of ?3 microseconds, of one queue (?4) or of all, per
-- node (?5) or summed over the nodes.
SELECT x.at, x.queue, CASE WHEN ?5 THEN x.node END AS apart,
    sum(x.push_requests), sum(x.push_messages), sum(x.push_duplicates), sum(x.pop_requests),
    sum(x.pop_messages), sum(x.pop_empty), sum(x.ack_requests), sum(x.ack_success),
    sum(x.ack_failed), sum(x.dead_letters), sum(x.transactions), sum(x.lag_sum), max(x.lag_max),
    sum(x.expired), sum(x.evicted), sum(x.dropped), sum(x.removed), sum(x.parked)
FROM (
    SELECT s.bucket / ?3 * ?3 AS at, s.queue, s.node,
        sum(s.push_requests) AS push_requests, sum(s.push_messages) AS push_messages,
        sum(s.push_duplicates) AS push_duplicates, sum(s.pop_requests) AS pop_requests,
        sum(s.pop_messages) AS pop_messages, sum(s.pop_empty) AS pop_empty, sum(s.ack_requests) AS
        ack_requests, sum(s.ack_success) AS ack_success, sum(s.ack_failed) AS ack_failed,
        sum(s.dead_letters) AS dead_letters, sum(s.transactions) AS transactions, sum(s.lag_sum)
        AS lag_sum, max(s.lag_max) AS lag_max, sum(s.expired) AS expired, sum(s.evicted) AS
        evicted, sum(s.dropped) AS dropped, sum(s.removed) AS removed, max(s.parked) AS parked
    FROM queue_stats s
    WHERE s.bucket >= ?1 AND s.bucket < ?2 AND (?4 IS NULL OR s.queue = ?4)
    GROUP BY 1, 2, 3
) x
GROUP BY x.at, x.queue, apart ORDER BY x.at, x.queue, apart
