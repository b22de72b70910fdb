-- When the first idempotency key is past its time.
-- Called by: chore::due. Walks hook_keys_expiry.
SELECT expires_at FROM hook_keys ORDER BY expires_at LIMIT 1
