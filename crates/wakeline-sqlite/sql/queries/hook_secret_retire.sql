-- Gives the current key of an endpoint an end.
-- Called by: secret::rotate.
UPDATE hook_secrets SET expires_at = ?2 WHERE endpoint_no = ?1 AND expires_at IS NULL
