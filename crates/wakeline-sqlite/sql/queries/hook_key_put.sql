-- Stores what a request created, and replaces an entry of the same key that has expired or whose
-- object was deleted.
INSERT INTO hook_keys (scope, application_no, key, print, made, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (scope, application_no, key) DO UPDATE SET print = ?4, made = ?5, expires_at = ?6
