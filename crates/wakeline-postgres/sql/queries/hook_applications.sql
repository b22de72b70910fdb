-- Returns a page of applications, without those whose own ids begin with $2.
SELECT a.application_id, a.uid, a.name, a.rate_limit, a.metadata, a.created_at, a.updated_at
FROM @schema@.hook_applications a
WHERE a.deleted_at IS NULL AND a.application_id @than@ $1
    AND ($2::text = '' OR a.uid IS NULL OR NOT starts_with(a.uid, $2))
ORDER BY a.application_id @order@ LIMIT $3
