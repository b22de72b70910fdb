-- Removes some lanes of an application's endpoints, which go with it.
-- Called by: chore::clear, after clear_secrets.
DELETE FROM hook_lanes WHERE endpoint_no IN (
    SELECT e.endpoint_no
    FROM hook_endpoints e INDEXED BY hook_endpoints_application
    CROSS JOIN hook_lanes l ON l.endpoint_no = e.endpoint_no
    WHERE e.application_no = ?1 ORDER BY e.id LIMIT ?2
)
