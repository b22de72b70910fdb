-- Deliveries with an expired lease, over all endpoints to which deliveries are sent. Uses the
-- index hook_deliveries_sent.
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at, attempted_at
FROM hook_deliveries INDEXED BY hook_deliveries_sent
WHERE state = 'leased' AND pulled = 0 AND lease_until <= ?1 ORDER BY lease_until LIMIT ?2
