-- The columns of an endpoint that sending needs.
SELECT e.id, a.id, e.application_no, e.url, e.event_types, e.channels, e.disabled, e.headers, e.options,
       e.deleted_at IS NOT NULL, a.deleted_at IS NOT NULL
FROM hook_endpoints e CROSS JOIN hook_applications a ON a.application_no = e.application_no
WHERE e.endpoint_no = ?1
