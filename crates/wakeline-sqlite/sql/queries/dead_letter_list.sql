-- Dead letters of all queues (?1 is NULL), of a group (?2), of partitions of a name (?3); newest first.
-- Called by: inspect::dead_letters.
SELECT d.dead_letter_id, d.id, d.transaction_id, d.partition_id, q.name, p.name, d.group_name,
       d.error, d.failures, d.payload, d.producer, d.created_at, d.failed_at
FROM dead_letters d
CROSS JOIN partitions p ON p.partition_id = d.partition_id
CROSS JOIN queues q ON q.queue_id = d.queue_id
WHERE ?1 IS NULL AND (?2 IS NULL OR d.group_name = ?2) AND (?3 IS NULL OR p.name = ?3)
ORDER BY d.dead_letter_id DESC LIMIT ?4 OFFSET ?5
