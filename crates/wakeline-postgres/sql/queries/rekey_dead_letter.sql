-- Replaces a payload by the same one, encrypted with the active key.
UPDATE @schema@.dead_letters SET payload = $2 WHERE dead_letter_id = $1
RETURNING true
