-- Removes a message's payload.
UPDATE @schema@.hook_messages m SET payload = NULL
FROM @schema@.hook_message_find($1, $2, $3, $4) f
WHERE m.application_id = f.application_id AND m.message_id = f.message_id
RETURNING m.message_id
