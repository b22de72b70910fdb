-- Sets the end of the current signing key of an endpoint.
UPDATE hook_secrets SET expires_at = ?2 WHERE endpoint_no = ?1 AND expires_at IS NULL
