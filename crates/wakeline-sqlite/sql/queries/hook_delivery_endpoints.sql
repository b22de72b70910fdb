-- The endpoints for which a message has deliveries. Uses the index hook_deliveries_message.
SELECT d.endpoint_no, e.id
FROM hook_deliveries d INDEXED BY hook_deliveries_message CROSS JOIN hook_endpoints e ON e.endpoint_no = d.endpoint_no
WHERE d.message_no = ?1
