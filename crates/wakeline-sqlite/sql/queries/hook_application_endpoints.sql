-- The endpoints of an application that are not deleted.
-- Called by: application::delete. Walks hook_endpoints_application.
SELECT endpoint_no FROM hook_endpoints WHERE application_no = ?1 AND deleted_at IS NULL
