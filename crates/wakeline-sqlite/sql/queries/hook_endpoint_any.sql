-- The number and application of an endpoint, deleted or not.
SELECT endpoint_no, application_no FROM hook_endpoints WHERE id = ?1
