-- How many names of traces there are. Called by: traces::names.
SELECT count(DISTINCT name) FROM trace_names
