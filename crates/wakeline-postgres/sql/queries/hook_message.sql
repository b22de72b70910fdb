-- Returns a message, with its payload if $5.
SELECT m.message_id, m.application_id, m.event_type, m.event_id, m.channels, m.created_at,
    CASE WHEN $5 THEN m.payload END AS payload
FROM @schema@.hook_message_find($1, $2, $3, $4) f
JOIN @schema@.hook_messages m
    ON m.application_id = f.application_id AND m.message_id = f.message_id
