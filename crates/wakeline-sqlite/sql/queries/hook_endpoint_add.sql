-- Adds an endpoint.
INSERT INTO hook_endpoints (application_no, id, uid, url, description, event_types, channels, disabled, metadata, headers,
                            options, version, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?12, ?12)
