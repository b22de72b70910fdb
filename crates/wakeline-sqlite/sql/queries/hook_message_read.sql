-- A message, with its payload if ?2 and the payload exists.
SELECT m.id, a.id, m.event_type, m.event_id, m.channels, m.created_at, p.payload
FROM hook_messages m
CROSS JOIN hook_applications a ON a.application_no = m.application_no
LEFT JOIN hook_payloads p ON ?2 AND p.message_no = m.message_no
WHERE m.message_no = ?1
