-- Partitions with an id of at least ?1, of one queue (?2), with one name (?3), and of the queues of
-- a namespace (?4) and a task (?5).
SELECT p.partition_id, p.queue_id, p.name, p.next_offset, p.last_push_at, p.gaps
FROM partitions p JOIN queues q ON q.queue_id = p.queue_id
WHERE p.partition_id >= ?1 AND (?2 IS NULL OR p.queue_id = ?2) AND (?3 IS NULL OR p.name = ?3)
    AND (?4 IS NULL OR q.namespace = ?4) AND (?5 IS NULL OR q.task = ?5)
ORDER BY p.partition_id LIMIT ?6 OFFSET ?7
