-- Removes some lanes of an application's endpoints. Must run after hook_clear_secrets with the same
-- parameters.
DELETE FROM hook_lanes WHERE endpoint_no IN (
    SELECT e.endpoint_no
    FROM hook_endpoints e INDEXED BY hook_endpoints_application
    CROSS JOIN hook_lanes l ON l.endpoint_no = e.endpoint_no
    WHERE e.application_no = ?1 ORDER BY e.id LIMIT ?2
)
