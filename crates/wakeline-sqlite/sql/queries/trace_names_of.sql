-- The names of a trace. Called by: traces::decode.
SELECT name FROM trace_names WHERE trace_no = ?1 ORDER BY name
