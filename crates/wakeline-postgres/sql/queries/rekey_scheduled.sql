-- Returns some scheduled messages in order, with their payloads if these are encrypted.
SELECT s.scheduled_id, s.id, CASE WHEN substring(s.payload FOR 1) = '\x01' THEN s.payload END
FROM @schema@.scheduled s WHERE s.scheduled_id > $1 ORDER BY s.scheduled_id LIMIT $2
