-- As hook_claim.sql, for a node that receives no notifications: one more row, of kind 3, if rows
-- wait in incoming to be taken over.
SELECT kind, line, code, due_us, endpoint, application, url, headers, secrets, secret_ends, options,
    ask, grp, delivery, key, attempt_no, scheduled_no, manual, message, event_type, event_id, channels,
    created_at, payload, now_at, lease_us
FROM @schema@.hook_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
UNION ALL
SELECT 3::smallint, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE @schema@.incoming_waits()
