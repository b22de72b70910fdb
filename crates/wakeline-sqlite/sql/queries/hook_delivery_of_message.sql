-- The deliveries of a message. Uses the index hook_deliveries_message.
SELECT delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled, back_state, back_due_at, back_behind,
       lease_key, leased_at, lease_until, cancelled, created_at, updated_at, attempted_at
FROM hook_deliveries INDEXED BY hook_deliveries_message WHERE message_no = ?1
