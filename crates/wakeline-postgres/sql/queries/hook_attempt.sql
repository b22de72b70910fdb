-- Returns an attempt.
SELECT t.attempt_id, t.message_id, t.endpoint_id, t.attempt_no, t.outcome, t.manual, t.began_at,
    t.took_us, t.status, t.response, t.error, t.url
FROM @schema@.hook_attempts t
WHERE t.application_id = @schema@.hook_application_find($1, NULL) AND t.attempt_id = $2
