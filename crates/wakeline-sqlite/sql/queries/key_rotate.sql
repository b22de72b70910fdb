-- Gives a key another secret; the present one stays valid for a while. Called by: access::rotate.
UPDATE api_keys SET digest = ?2, former_digest = digest, former_until = ?3
WHERE key_id = ?1 AND revoked_at IS NULL
