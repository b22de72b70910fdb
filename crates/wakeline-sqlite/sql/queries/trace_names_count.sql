-- The number of trace names.
SELECT count(DISTINCT name) FROM trace_names
