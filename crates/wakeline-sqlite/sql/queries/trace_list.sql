-- The traces of a message, oldest first.
SELECT trace_no, trace_id, event_type, group_name, worker, data, created_at, partition_id, offset
FROM traces WHERE partition_id = ?1 AND offset = ?2 ORDER BY trace_no
