-- Deliveries with an expired lease of an endpoint whose deliveries are pulled. Uses the index
-- hook_deliveries_leased.
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at, attempted_at
FROM hook_deliveries INDEXED BY hook_deliveries_leased
WHERE state = 'leased' AND endpoint_no = ?1 AND lease_until <= ?2 ORDER BY lease_until LIMIT ?3
