-- The first stored message at or after an offset.
SELECT offset, created_at FROM messages WHERE partition_id = ?1 AND offset >= ?2 ORDER BY offset LIMIT 1
