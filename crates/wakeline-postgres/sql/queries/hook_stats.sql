-- Counts the deliveries of an endpoint by state, among the newest 100,000, so that the query ends
-- soon however many there are.
SELECT count(*) FILTER (WHERE d.state = 2) AS delivered,
    count(*) FILTER (WHERE d.state = 0) AS waiting,
    count(*) FILTER (WHERE d.state = 1) AS in_flight,
    count(*) FILTER (WHERE d.state = 3) AS failed,
    count(*) FILTER (WHERE d.state = 4) AS cancelled
FROM @schema@.hook_endpoints e
CROSS JOIN LATERAL (
    SELECT k.state, k.created_at FROM @schema@.hook_deliveries k
    WHERE k.endpoint_id = e.endpoint_id
    ORDER BY k.message_id DESC LIMIT 100000) d
WHERE e.endpoint_id = $2 AND e.application_id = @schema@.hook_application_find($1, NULL)
    AND ($3::timestamptz IS NULL OR d.created_at >= $3)
