-- Some messages in order, with their payloads if these are encrypted: they begin with the byte 1,
-- and no JSON text does.
SELECT partition_id, offset, id, CASE WHEN substr(payload, 1, 1) = x'01' THEN payload END
FROM messages WHERE (partition_id, offset) > (?1, ?2)
ORDER BY partition_id, offset LIMIT ?3
