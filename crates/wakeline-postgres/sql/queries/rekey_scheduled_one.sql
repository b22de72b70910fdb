-- Replaces a payload by the same one, encrypted with the active key.
UPDATE @schema@.scheduled SET payload = $2 WHERE scheduled_id = $1
RETURNING true
