-- Whether an application has rows left. Attempts, deliveries and messages are removed before lanes.
SELECT 1 FROM hook_messages INDEXED BY hook_messages_order WHERE application_no = ?1
UNION ALL
SELECT 1 FROM hook_endpoints e INDEXED BY hook_endpoints_application
CROSS JOIN hook_lanes l ON l.endpoint_no = e.endpoint_no
WHERE e.application_no = ?1
LIMIT 1
