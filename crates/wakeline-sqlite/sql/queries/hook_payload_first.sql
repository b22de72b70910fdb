-- When the first payload expires.
-- Called by: message::add, chore::next_due.
SELECT expires_at FROM hook_payloads ORDER BY expires_at LIMIT 1
