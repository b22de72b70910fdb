-- Adds a signing key to an endpoint. It becomes the current key.
INSERT INTO hook_secrets (endpoint_no, secret_no, sealed)
SELECT ?1, 1 + coalesce(max(secret_no), 0), ?2 FROM hook_secrets WHERE endpoint_no = ?1
