-- Adds an event type pattern to an endpoint.
INSERT INTO hook_filters (application_no, pattern, endpoint_no) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
