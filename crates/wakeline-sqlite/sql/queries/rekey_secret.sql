-- Replaces a signing key by the same, sealed anew.
UPDATE hook_secrets SET sealed = ?3 WHERE endpoint_no = ?1 AND secret_no = ?2
