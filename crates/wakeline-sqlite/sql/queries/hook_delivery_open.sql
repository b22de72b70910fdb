-- The deliveries of an endpoint that are under way, or wait.
-- Called by: endpoint::remove, endpoint::update. Walks the indexes over both.
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at
FROM hook_deliveries INDEXED BY hook_deliveries_waiting WHERE state = 'waiting' AND endpoint_no = ?1
UNION ALL
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at
FROM hook_deliveries INDEXED BY hook_deliveries_leased WHERE state = 'leased' AND endpoint_no = ?1
