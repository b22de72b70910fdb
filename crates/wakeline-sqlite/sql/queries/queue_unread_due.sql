-- When a group that does not exist yet would have messages in a queue, or in one of its partitions
-- (?2). ?3 is the delay, ?4 the window.
SELECT min(max(m.created_at + ?3, min(p.last_push_at + ?4, m.created_at + 10 * ?4)))
FROM partitions p
JOIN messages m ON m.partition_id = p.partition_id
    AND m.offset = (SELECT offset FROM messages f WHERE f.partition_id = p.partition_id ORDER BY offset LIMIT 1)
WHERE p.queue_id = ?1 AND (?2 IS NULL OR p.name = ?2)
