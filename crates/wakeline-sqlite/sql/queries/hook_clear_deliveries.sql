-- Removes some deliveries of an application. Uses the index over endpoint and message, endpoint by
-- endpoint.
DELETE FROM hook_deliveries WHERE delivery_no IN (
    SELECT d.delivery_no
    FROM hook_endpoints e INDEXED BY hook_endpoints_application
    CROSS JOIN hook_deliveries d ON d.endpoint_no = e.endpoint_no
    WHERE e.application_no = ?1 LIMIT ?2
)
