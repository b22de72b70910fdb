-- Gives a key another secret; the current one stays valid for a while.
UPDATE @schema@.api_keys k SET digest = $2, former_digest = k.digest,
    former_until = @schema@.clock() + $3::bigint * interval '1 microsecond'
WHERE k.key_id = $1 AND k.revoked_at IS NULL RETURNING k.key_id
