-- One attempt of an application, by its id.
SELECT t.attempt_no, t.id, m.id, e.id, t.number, t.outcome, t.manual, t.began_at, t.took, t.status, t.response, t.error, t.url
FROM hook_attempts t
CROSS JOIN hook_messages m ON m.message_no = t.message_no
CROSS JOIN hook_endpoints e ON e.endpoint_no = t.endpoint_no
WHERE t.application_no = ?1 AND t.id = ?2
