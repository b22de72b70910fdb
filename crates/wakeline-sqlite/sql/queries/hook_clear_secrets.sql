-- Removes the signing keys of the endpoints whose lanes hook_clear_lanes removes next. Must run
-- before it.
DELETE FROM hook_secrets WHERE endpoint_no IN (
    SELECT e.endpoint_no
    FROM hook_endpoints e INDEXED BY hook_endpoints_application
    CROSS JOIN hook_lanes l ON l.endpoint_no = e.endpoint_no
    WHERE e.application_no = ?1 ORDER BY e.id LIMIT ?2
)
