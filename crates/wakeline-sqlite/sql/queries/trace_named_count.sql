-- How many traces a name has. Called by: traces::named.
SELECT count(*) FROM trace_names WHERE name = ?1
