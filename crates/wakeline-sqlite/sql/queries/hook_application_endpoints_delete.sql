-- Makes the endpoints of an application gone for everybody who asks for them.
-- Called by: application::delete. Walks hook_endpoints_application.
UPDATE hook_endpoints INDEXED BY hook_endpoints_application SET deleted_at = ?2, uid = NULL
WHERE application_no = ?1 AND deleted_at IS NULL
