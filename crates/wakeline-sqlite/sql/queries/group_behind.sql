-- Partitions in which a group (?1, or any) may have messages to read or to settle, in one queue
-- (?2) or in all.
SELECT q.name, g.name, g.group_id, p.name, p.partition_id
FROM groups g
JOIN queues q ON q.queue_id = g.queue_id
JOIN cursors c ON c.group_id = g.group_id AND c.due_at IS NOT NULL
JOIN partitions p ON p.partition_id = c.partition_id
WHERE (?1 IS NULL OR g.name = ?1) AND (?2 IS NULL OR q.name = ?2)
