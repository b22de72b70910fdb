-- Removes expired idempotency keys. Uses the index hook_keys_expiry.
DELETE FROM hook_keys WHERE (scope, application_no, key) IN (
    SELECT scope, application_no, key FROM hook_keys INDEXED BY hook_keys_expiry
    WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)
