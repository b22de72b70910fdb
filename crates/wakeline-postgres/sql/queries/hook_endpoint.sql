-- Returns an endpoint.
SELECT e.endpoint_id, e.application_id, e.uid, e.url, e.description, e.event_types, e.channels,
    s.disabled, e.metadata, e.headers, e.options, e.version, e.created_at, e.updated_at,
    s.failing_since,
    CASE WHEN e.breaker_probes IS NOT NULL AND s.open_until > c.now
        THEN ceil(extract(epoch FROM s.open_until - c.now) * 1000000)::bigint END AS paused_us
FROM (SELECT @schema@.clock() AS now) c, @schema@.hook_endpoints e
JOIN @schema@.hook_states s ON s.endpoint_id = e.endpoint_id
WHERE e.endpoint_id = @schema@.hook_endpoint_find($1, $2, $3, $4)
