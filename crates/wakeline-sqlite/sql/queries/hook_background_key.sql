-- When the first idempotency key expires. Uses the index hook_keys_expiry.
SELECT expires_at FROM hook_keys ORDER BY expires_at LIMIT 1
