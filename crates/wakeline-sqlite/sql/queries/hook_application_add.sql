-- Adds an application.
INSERT INTO hook_applications (id, uid, name, rate_limit, metadata, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
