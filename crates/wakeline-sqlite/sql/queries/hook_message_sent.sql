-- The columns of a message that are sent to endpoints. Runs for each leased delivery.
SELECT m.id, m.event_type, m.event_id, m.channels, m.created_at, p.payload
FROM hook_messages m LEFT JOIN hook_payloads p ON p.message_no = m.message_no
WHERE m.message_no = ?1
