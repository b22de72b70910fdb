-- The names of traces, most recently used first.
SELECT n.name, count(*), count(DISTINCT t.partition_id || '/' || t.offset), max(t.created_at)
FROM trace_names n JOIN traces t ON t.trace_no = n.trace_no
GROUP BY n.name ORDER BY max(t.created_at) DESC, n.name LIMIT ?1 OFFSET ?2
