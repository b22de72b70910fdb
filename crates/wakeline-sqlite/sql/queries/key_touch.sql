-- Notes that a key is used, unless that was noted after ?3. Called by: access::touch.
UPDATE api_keys SET last_used_at = ?2
WHERE key_id = ?1 AND (last_used_at IS NULL OR last_used_at <= ?3)
