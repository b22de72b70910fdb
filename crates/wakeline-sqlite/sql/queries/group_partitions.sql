-- The partitions of one group (?1) or of all, in one queue (?2) or in all, with their cursors.
SELECT q.name, g.name, g.group_id, p.name, p.partition_id
FROM groups g
JOIN queues q ON q.queue_id = g.queue_id
JOIN partitions p ON p.queue_id = q.queue_id
JOIN cursors c ON c.partition_id = p.partition_id AND c.group_id = g.group_id
WHERE (?1 IS NULL OR g.name = ?1) AND (?2 IS NULL OR q.name = ?2)
ORDER BY g.name, q.name, p.name LIMIT ?3 OFFSET ?4
