-- Replaces a payload by the same, sealed anew. Called by: KeyedStore::rekey.
UPDATE @schema@.dead_letters SET payload = $2 WHERE dead_letter_id = $1
RETURNING true
