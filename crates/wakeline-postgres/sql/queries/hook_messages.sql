-- Returns a page of an application's messages.
SELECT m.message_id, m.application_id, m.event_type, m.event_id, m.channels, m.created_at,
    CASE WHEN $9 THEN m.payload END AS payload
FROM @schema@.hook_messages m
WHERE m.application_id = @schema@.hook_application_find($1, NULL) AND m.message_id @than@ $2
    AND ($4::text IS NULL OR $4 = ANY (m.channels))
    AND (cardinality($5::text[]) = 0 OR m.event_type = ANY ($5))
    AND ($6::timestamptz IS NULL OR m.created_at < $6)
    AND ($7::timestamptz IS NULL OR m.created_at > $7)
    AND ($8::uuid IS NULL OR EXISTS (SELECT FROM @schema@.hook_deliveries d
        WHERE d.endpoint_id = $8 AND d.message_id = m.message_id))
ORDER BY m.message_id @order@ LIMIT $3
