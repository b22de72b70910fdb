-- When the message at an offset, or the next one after it, was pushed.
SELECT created_at FROM messages WHERE partition_id = ?1 AND offset >= ?2 ORDER BY offset LIMIT 1
