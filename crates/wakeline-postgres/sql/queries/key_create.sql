-- Makes a key; returns nothing if its id, or its name among live keys, is taken.
-- Called by: AccessStore::create_key.
INSERT INTO @schema@.api_keys (key_id, name, scopes, digest, created_at, expires_at)
SELECT $1, $2, $3, $4, n.at, n.at + $5::bigint * interval '1 microsecond'
FROM (SELECT @schema@.clock() AS at) n
ON CONFLICT DO NOTHING RETURNING key_id
