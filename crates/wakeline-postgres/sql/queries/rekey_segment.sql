-- Replaces the payloads of a segment by the same, sealed anew. Called by: KeyedStore::rekey.
UPDATE @schema@.segments SET body = $3, ends = $4 WHERE partition_id = $1 AND first_offset = $2
RETURNING true
