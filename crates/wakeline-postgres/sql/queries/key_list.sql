-- Returns one key, or all by name.
SELECT k.key_id, k.name, k.scopes, k.digest, k.former_digest, k.former_until, k.created_at,
    k.expires_at, k.last_used_at, k.revoked_at, @schema@.clock()
FROM @schema@.api_keys k WHERE $1::text IS NULL OR k.key_id = $1
ORDER BY k.name, k.created_at, k.key_id
