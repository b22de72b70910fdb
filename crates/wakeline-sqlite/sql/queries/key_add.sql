-- Makes a key, unless its id, or its name among live keys, is taken. Called by: access::create.
INSERT INTO api_keys (key_id, name, scopes, digest, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING
