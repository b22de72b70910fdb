-- Replaces a payload by the same, sealed anew. Called by: KeyedStore::rekey.
UPDATE @schema@.scheduled SET payload = $2 WHERE scheduled_id = $1
RETURNING true
