-- The encrypted signing keys of an endpoint.
SELECT secret_no, sealed FROM hook_secrets WHERE endpoint_no = ?1
