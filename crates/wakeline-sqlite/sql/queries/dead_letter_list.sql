-- Dead letters of all queues (?1 is NULL), newest first. ?2 to ?7 filter by group, partition,
-- number, time from, time before, and text in the error.
SELECT d.dead_letter_id, d.id, d.transaction_id, d.partition_id, q.name, p.name, d.group_name,
       d.error, d.failures, d.payload, d.producer, d.created_at, d.failed_at, d.trace_id, d.offset
FROM dead_letters d
CROSS JOIN partitions p ON p.partition_id = d.partition_id
CROSS JOIN queues q ON q.queue_id = d.queue_id
WHERE ?1 IS NULL AND (?2 IS NULL OR d.group_name = ?2) AND (?3 IS NULL OR p.name = ?3)
    AND (?4 IS NULL OR d.dead_letter_id = ?4) AND (?5 IS NULL OR d.failed_at >= ?5)
    AND (?6 IS NULL OR d.failed_at < ?6) AND (?7 IS NULL OR instr(d.error, ?7) > 0)
ORDER BY d.dead_letter_id DESC LIMIT ?8 OFFSET ?9
