-- Messages from a number on that have a delivery for an endpoint. Uses the index over endpoint and
-- message.
SELECT d.message_no, m.event_type, m.created_at
FROM hook_deliveries d CROSS JOIN hook_messages m ON m.message_no = d.message_no
WHERE d.endpoint_no = ?1 AND d.message_no >= ?2 ORDER BY d.message_no LIMIT ?3
