-- One API key (?1), or all API keys ordered by name.
SELECT key_id, name, scopes, digest, former_digest, former_until, created_at, expires_at,
    last_used_at, revoked_at
FROM api_keys WHERE ?1 IS NULL OR key_id = ?1 ORDER BY name, created_at, key_id
