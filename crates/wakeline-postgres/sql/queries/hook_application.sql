-- Returns an application.
SELECT a.application_id, a.uid, a.name, a.rate_limit, a.metadata, a.created_at, a.updated_at
FROM @schema@.hook_applications a
WHERE a.application_id = @schema@.hook_application_find($1, $2)
