-- Ends the expired leases of some endpoints: their attempts are logged as unknown and counted. A
-- delivery that was in flight is due since the lease's end, or returns to its state before a manual
-- attempt, or has failed if its schedule is used up. Leases that are locked by other transactions
-- are skipped. Lock order: deliveries, without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_reclaim(p_ids uuid[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH ended AS (
        SELECT d.*, e.application_id, e.url, e.attempts_max
        FROM unnest(p_ids) AS x (endpoint_id)
        JOIN @schema@.hook_endpoints e ON e.endpoint_id = x.endpoint_id
        CROSS JOIN LATERAL (
            SELECT d.delivery_id, d.endpoint_id, d.message_id, d.manual, d.cancelled, d.attempts,
                d.scheduled, d.lease_key, d.lease_at, d.lease_until, d.back_state, d.back_behind,
                d.back_due
            FROM @schema@.hook_deliveries d
            WHERE d.endpoint_id = x.endpoint_id AND d.state = 1 AND d.lease_until <= p_now
            FOR NO KEY UPDATE SKIP LOCKED) d
    ), logged AS (
        INSERT INTO @schema@.hook_attempts (application_id, attempt_id, endpoint_id, message_id,
            attempt_no, outcome, manual, began_at, took_us, url)
        SELECT o.application_id, o.lease_key, o.endpoint_id, o.message_id, o.attempts + 1, 3,
            o.manual, o.lease_at, 0, o.url
        FROM ended o
        ON CONFLICT DO NOTHING
    )
    UPDATE @schema@.hook_deliveries d SET
        state = CASE WHEN o.cancelled THEN 4 WHEN o.manual THEN o.back_state
            WHEN o.scheduled + 1 >= o.attempts_max THEN 3 ELSE 0 END,
        class = CASE WHEN o.manual AND o.back_behind THEN 2 ELSE 1 END,
        due_at = CASE WHEN o.manual THEN coalesce(o.back_due, d.due_at) ELSE o.lease_until END,
        manual = false, cancelled = false, attempts = o.attempts + 1,
        scheduled = o.scheduled + CASE WHEN o.manual THEN 0 ELSE 1 END,
        attempted_at = o.lease_at, lease_key = NULL, lease_at = NULL, lease_until = NULL,
        back_state = NULL, back_behind = NULL, back_due = NULL, updated_at = p_now
    FROM ended o
    WHERE d.delivery_id = o.delivery_id;
END
$$;
