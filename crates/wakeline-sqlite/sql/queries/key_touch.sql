-- Records that an API key was used, unless a use after ?3 is already recorded.
UPDATE api_keys SET last_used_at = ?2
WHERE key_id = ?1 AND (last_used_at IS NULL OR last_used_at <= ?3)
