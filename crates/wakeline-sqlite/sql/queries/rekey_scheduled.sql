-- Some scheduled messages in order, with their payloads if these are encrypted.
SELECT scheduled_id, id, CASE WHEN substr(payload, 1, 1) = x'01' THEN payload END
FROM scheduled WHERE scheduled_id > ?1 ORDER BY scheduled_id LIMIT ?2
