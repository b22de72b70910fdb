-- Replaces what is sealed of an endpoint by the same, sealed anew, unless somebody else has just
-- changed it. Called by: KeyedStore::rekey.
UPDATE @schema@.hook_endpoints SET headers = $4, secrets = $5
WHERE endpoint_id = $1 AND headers = $2 AND secrets = $3 RETURNING true
