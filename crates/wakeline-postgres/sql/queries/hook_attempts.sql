-- Returns a page of an application's attempts.
SELECT t.attempt_id, t.message_id, t.endpoint_id, t.attempt_no, t.outcome, t.manual, t.began_at,
    t.took_us, t.status, CASE WHEN $12 THEN t.response END AS response, t.error, t.url
FROM @schema@.hook_attempts t
WHERE t.application_id = @schema@.hook_application_find($1, NULL) AND t.attempt_id @than@ $2
    AND ($4::uuid IS NULL OR t.message_id = $4) AND ($5::uuid IS NULL OR t.endpoint_id = $5)
    AND (cardinality($6::smallint[]) = 0 OR t.outcome = ANY ($6))
    AND ($7::integer IS NULL OR coalesce(t.status / 100 * 100, 0) = $7)
    AND ($10::timestamptz IS NULL OR t.began_at < $10)
    AND ($11::timestamptz IS NULL OR t.began_at > $11)
    AND ($8::text IS NULL AND cardinality($9::text[]) = 0 OR EXISTS (
        SELECT FROM @schema@.hook_messages m
        WHERE m.application_id = t.application_id AND m.message_id = t.message_id
            AND ($8 IS NULL OR $8 = ANY (m.channels))
            AND (cardinality($9) = 0 OR m.event_type = ANY ($9))))
ORDER BY t.attempt_id @order@ LIMIT $3
