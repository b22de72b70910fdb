-- The signing keys of an endpoint: the current one first, then the newest.
SELECT sealed, expires_at FROM hook_secrets WHERE endpoint_no = ?1 ORDER BY secret_no DESC
