-- A page of the endpoints of an application by id, newest first. Uses the index
-- hook_endpoints_application.
SELECT endpoint_no FROM hook_endpoints
WHERE application_no = ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id DESC LIMIT ?3
