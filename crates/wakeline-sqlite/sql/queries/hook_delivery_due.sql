-- Due deliveries of one class of an endpoint without strict order, in the order in which they
-- became due. Uses the index hook_deliveries_waiting.
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at, attempted_at
FROM hook_deliveries INDEXED BY hook_deliveries_waiting
WHERE state = 'waiting' AND endpoint_no = ?1 AND class = ?2 AND due_at <= ?3 ORDER BY due_at, delivery_no LIMIT ?4
