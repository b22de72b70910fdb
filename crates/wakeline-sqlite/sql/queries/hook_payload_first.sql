-- When the first payload expires.
SELECT expires_at FROM hook_payloads ORDER BY expires_at LIMIT 1
