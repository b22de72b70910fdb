-- A page of the deliveries of a message by endpoint id, oldest endpoint first. Uses the index
-- hook_deliveries_message, and sorts the deliveries of the message.
SELECT d.delivery_no, d.endpoint_no, d.message_no, d.state, d.class, d.due_at, d.attempts, d.scheduled, d.back_state,
       d.back_due_at, d.back_behind, d.lease_key, d.leased_at, d.lease_until, d.cancelled, d.created_at, d.updated_at,
       d.attempted_at
FROM hook_deliveries d INDEXED BY hook_deliveries_message CROSS JOIN hook_endpoints e ON e.endpoint_no = d.endpoint_no
WHERE d.message_no = ?1 AND e.id > ?2 ORDER BY e.id ASC LIMIT ?3
