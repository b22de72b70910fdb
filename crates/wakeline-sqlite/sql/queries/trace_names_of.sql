-- The names of a trace.
SELECT name FROM trace_names WHERE trace_no = ?1 ORDER BY name
