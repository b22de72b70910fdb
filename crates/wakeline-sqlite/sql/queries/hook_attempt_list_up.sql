-- A page of the attempts of an application by id, oldest first. Uses the index over application and
-- id.
SELECT t.attempt_no, t.id, m.id, e.id, t.number, t.outcome, t.manual, t.began_at, t.took, t.status,
       CASE WHEN ?11 THEN t.response END, t.error, t.url
FROM hook_attempts t
CROSS JOIN hook_messages m ON m.message_no = t.message_no
CROSS JOIN hook_endpoints e ON e.endpoint_no = t.endpoint_no
WHERE t.application_no = ?1 AND t.id > ?2 AND (?3 IS NULL OR t.message_no = ?3) AND (?4 IS NULL OR t.endpoint_no = ?4)
  AND (?5 IS NULL OR instr(?5, t.outcome) > 0)
  AND (?6 IS NULL OR coalesce(t.status / 100 * 100, 0) = ?6)
  AND (?7 IS NULL OR EXISTS (SELECT 1 FROM json_each(coalesce(m.channels, '[]')) c WHERE c.value = ?7))
  AND (?8 IS NULL OR m.event_type IN (SELECT value FROM json_each(?8)))
  AND t.began_at < ?9 AND t.began_at > ?10
ORDER BY t.id ASC LIMIT ?12
