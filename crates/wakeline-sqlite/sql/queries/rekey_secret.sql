-- Replaces a signing key by the same signing key encrypted with the current encryption key.
UPDATE hook_secrets SET sealed = ?3 WHERE endpoint_no = ?1 AND secret_no = ?2
