-- Records that keys are used, at most once a minute. Lock order: keys by id, skipping locked ones.
WITH used AS (
    SELECT k.key_id FROM @schema@.api_keys k
    WHERE k.key_id = ANY ($1)
        AND (k.last_used_at IS NULL OR k.last_used_at <= @schema@.clock() - interval '1 minute')
    ORDER BY k.key_id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE @schema@.api_keys k SET last_used_at = @schema@.clock()
FROM used WHERE k.key_id = used.key_id
