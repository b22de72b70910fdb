-- An endpoint, deleted or not, with the state of its breaker.
SELECT e.id, a.id, e.uid, e.url, e.description, e.event_types, e.channels, e.disabled, e.metadata, e.headers, e.options,
       e.version, e.created_at, e.updated_at, l.failing_since, l.open_until
FROM hook_endpoints e
CROSS JOIN hook_applications a ON a.application_no = e.application_no
CROSS JOIN hook_lanes l ON l.endpoint_no = e.endpoint_no
WHERE e.endpoint_no = ?1
