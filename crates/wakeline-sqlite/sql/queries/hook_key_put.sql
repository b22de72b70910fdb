-- Remembers what a request made, in the place of one that is past its time or whose work is gone.
-- Called by: key::remember.
INSERT INTO hook_keys (scope, application_no, key, print, made, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (scope, application_no, key) DO UPDATE SET print = ?4, made = ?5, expires_at = ?6
