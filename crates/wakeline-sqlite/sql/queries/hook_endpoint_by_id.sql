-- The number of an endpoint of an application.
SELECT endpoint_no FROM hook_endpoints WHERE id = ?2 AND application_no = ?1 AND deleted_at IS NULL
