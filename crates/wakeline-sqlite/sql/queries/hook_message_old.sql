-- Messages by age, after a position, and whether each can be removed: its payload is removed, and
-- none of its deliveries is waiting, in flight or still to be created. Uses the index
-- hook_messages_created.
SELECT m.message_no, m.created_at,
    NOT EXISTS (SELECT 1 FROM hook_payloads p WHERE p.message_no = m.message_no)
    AND NOT EXISTS (
        SELECT 1 FROM hook_deliveries d INDEXED BY hook_deliveries_message
        WHERE d.message_no = m.message_no AND d.state IN ('waiting', 'leased'))
    AND NOT EXISTS (
        SELECT 1 FROM hook_fan_outs f WHERE f.application_no = m.application_no AND f.message_no = m.message_no)
FROM hook_messages m INDEXED BY hook_messages_created
WHERE m.created_at < ?1 AND (m.created_at, m.message_no) > (?2, ?3)
ORDER BY m.created_at, m.message_no LIMIT ?4
