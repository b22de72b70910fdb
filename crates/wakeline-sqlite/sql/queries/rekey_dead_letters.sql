-- Some dead letters in order, with their payloads if these are encrypted.
SELECT dead_letter_id, id, CASE WHEN substr(payload, 1, 1) = x'01' THEN payload END
FROM dead_letters WHERE dead_letter_id > ?1 ORDER BY dead_letter_id LIMIT ?2
