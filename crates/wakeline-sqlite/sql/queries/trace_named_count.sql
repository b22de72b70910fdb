-- The number of traces with a name.
SELECT count(*) FROM trace_names WHERE name = ?1
