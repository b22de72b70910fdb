-- Returns a page of a message's deliveries, by endpoint.
SELECT d.message_id, d.endpoint_id,
    @schema@.hook_delivery_state(
        -- Deliveries that wait for a deleted endpoint will be cancelled by background work.
        CASE WHEN d.state = 0 AND e.deleted_at IS NOT NULL THEN 4::smallint ELSE d.state END,
        d.attempts, d.due_at,
        s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL, g.gate, c.now) AS state,
    d.attempts,
    CASE WHEN d.state = 0 AND s.disabled IS NULL AND e.deleted_at IS NULL
        THEN greatest(d.due_at, CASE WHEN g.gate > c.now THEN g.gate END) END AS next_attempt_at,
    d.created_at, d.updated_at
FROM (SELECT @schema@.clock() AS now) c, @schema@.hook_endpoints e
JOIN @schema@.hook_states s ON s.endpoint_id = e.endpoint_id
CROSS JOIN LATERAL (
    SELECT @schema@.hook_gate(
        s.throttled_until, s.open_until, e.breaker_probes, e.rate, s.rate_at) AS gate) g
JOIN @schema@.hook_deliveries d ON d.endpoint_id = e.endpoint_id AND d.message_id = $2
WHERE e.application_id = @schema@.hook_application_find($1, NULL) AND e.endpoint_id @than@ $3
ORDER BY e.endpoint_id @order@ LIMIT $4
