-- Stores a trace.
INSERT INTO traces (trace_id, partition_id, offset, event_type, group_name, worker, data, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
