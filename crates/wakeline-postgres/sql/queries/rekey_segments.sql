-- Returns some segments in order, with their payloads if these are encrypted.
SELECT s.partition_id, s.first_offset, s.ids, s.ends,
    CASE WHEN substring(s.body FOR 1) = '\x01' THEN s.body END
FROM @schema@.segments s
WHERE (s.partition_id, s.first_offset) > ($1, $2)
ORDER BY s.partition_id, s.first_offset LIMIT $3
