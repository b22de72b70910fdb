-- Removes expired signing keys of an endpoint.
DELETE FROM hook_secrets WHERE endpoint_no = ?1 AND expires_at <= ?2
