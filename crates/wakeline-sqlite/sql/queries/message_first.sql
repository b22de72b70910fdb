-- The first message from an offset on. Called by: housekeep, groups that begin in the past.
SELECT offset, created_at FROM messages WHERE partition_id = ?1 AND offset >= ?2 ORDER BY offset LIMIT 1
