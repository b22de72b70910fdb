-- Revokes a key permanently; returns nothing if there is none to revoke.
UPDATE @schema@.api_keys k SET revoked_at = @schema@.clock()
WHERE k.key_id = $1 AND k.revoked_at IS NULL RETURNING k.key_id
