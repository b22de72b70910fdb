-- The first open deliveries of an endpoint in strict order. Uses the index hook_deliveries_order.
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at, attempted_at
FROM hook_deliveries INDEXED BY hook_deliveries_order
WHERE in_order = 1 AND endpoint_no = ?1 ORDER BY delivery_no LIMIT ?2
