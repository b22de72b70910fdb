-- Creates a key; returns nothing if its id exists, or its name among live keys.
INSERT INTO @schema@.api_keys (key_id, name, scopes, digest, created_at, expires_at)
SELECT $1, $2, $3, $4, n.at, n.at + $5::bigint * interval '1 microsecond'
FROM (SELECT @schema@.clock() AS at) n
ON CONFLICT DO NOTHING RETURNING key_id
