-- Inserts an API key, unless its id is taken, or its name is taken by a live key.
INSERT INTO api_keys (key_id, name, scopes, digest, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING
