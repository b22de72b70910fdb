-- The traces with a name, newest first.
SELECT t.trace_no, t.trace_id, t.event_type, t.group_name, t.worker, t.data, t.created_at,
       t.partition_id, t.offset, q.name, p.name
FROM trace_names n
JOIN traces t ON t.trace_no = n.trace_no
JOIN partitions p ON p.partition_id = t.partition_id
JOIN queues q ON q.queue_id = p.queue_id
WHERE n.name = ?1 ORDER BY n.trace_no DESC LIMIT ?2 OFFSET ?3
