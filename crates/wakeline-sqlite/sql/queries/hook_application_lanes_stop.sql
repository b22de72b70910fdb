-- Keeps claims away from all endpoints of an application.
-- Called by: application::delete. Walks hook_endpoints_application.
UPDATE hook_lanes SET due_at = NULL, fresh_at = NULL
WHERE endpoint_no IN (
    SELECT endpoint_no FROM hook_endpoints INDEXED BY hook_endpoints_application WHERE application_no = ?1)
