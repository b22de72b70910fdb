-- Removes the response of an endpoint to an attempt.
UPDATE @schema@.hook_attempts t SET response = NULL
FROM @schema@.hook_message_find($1, $2, $3, $4) f
WHERE t.application_id = f.application_id AND t.message_id = f.message_id AND t.attempt_id = $5
RETURNING t.attempt_id
