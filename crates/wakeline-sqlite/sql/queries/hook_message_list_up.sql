-- A page of the messages of an application by id, oldest first. Uses the index over application and
-- id.
SELECT m.message_no FROM hook_messages m
WHERE m.application_no = ?1 AND m.id > ?2
  AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(coalesce(m.channels, '[]')) c WHERE c.value = ?3))
  AND (?4 IS NULL OR m.event_type IN (SELECT value FROM json_each(?4)))
  AND m.created_at < ?5 AND m.created_at > ?6
  AND (?7 IS NULL OR EXISTS (
      SELECT 1 FROM hook_deliveries d WHERE d.endpoint_no = ?7 AND d.message_no = m.message_no))
ORDER BY m.id ASC LIMIT ?8
