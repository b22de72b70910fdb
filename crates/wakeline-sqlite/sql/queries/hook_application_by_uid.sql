-- An application by its user's own id; deleted ones have none.
-- Called by: application::find.
SELECT application_no, id, uid, name, rate_limit, metadata, created_at, updated_at FROM hook_applications
WHERE uid = ?1
