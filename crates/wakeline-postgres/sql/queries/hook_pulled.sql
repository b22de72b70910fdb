-- Returns the endpoints whose owners may fetch a message.
SELECT e.endpoint_id FROM @schema@.hook_endpoints e
JOIN @schema@.hook_deliveries d ON d.endpoint_id = e.endpoint_id AND d.message_id = $2
WHERE e.application_id = $1 AND e.pull
ORDER BY e.endpoint_id
