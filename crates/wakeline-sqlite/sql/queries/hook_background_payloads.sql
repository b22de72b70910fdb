-- Expired payloads, and whether the application of each still exists. Uses the index
-- hook_payloads_expiry.
SELECT p.message_no, a.deleted_at IS NULL
FROM hook_payloads p INDEXED BY hook_payloads_expiry
CROSS JOIN hook_messages m ON m.message_no = p.message_no
CROSS JOIN hook_applications a ON a.application_no = m.application_no
WHERE p.expires_at <= ?1 ORDER BY p.expires_at LIMIT ?2
