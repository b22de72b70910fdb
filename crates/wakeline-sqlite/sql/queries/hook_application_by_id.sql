-- An application by its id.
SELECT application_no, id, uid, name, rate_limit, metadata, created_at, updated_at FROM hook_applications
WHERE id = ?1 AND deleted_at IS NULL
