-- Returns some dead letters in order, with their payloads if these are encrypted.
SELECT d.dead_letter_id, d.id, CASE WHEN substring(d.payload FOR 1) = '\x01' THEN d.payload END
FROM @schema@.dead_letters d WHERE d.dead_letter_id > $1 ORDER BY d.dead_letter_id LIMIT $2
