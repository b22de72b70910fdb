-- Replaces the secret of an API key; the old secret stays valid for a while.
UPDATE api_keys SET digest = ?2, former_digest = digest, former_until = ?3
WHERE key_id = ?1 AND revoked_at IS NULL
