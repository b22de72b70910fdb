-- Replaces the encrypted columns of an endpoint by the same values, encrypted with the active key,
-- unless another transaction has changed it meanwhile.
UPDATE @schema@.hook_endpoints SET headers = $4, secrets = $5
WHERE endpoint_id = $1 AND headers = $2 AND secrets = $3 RETURNING true
