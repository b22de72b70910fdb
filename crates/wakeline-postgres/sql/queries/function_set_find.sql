-- Returns the schema of a complete set of functions: $1 is its checksum, $2 the names of its
-- functions, $3 the main schema. No row if one of them is missing, as after a restore of the main
-- schema alone or in place: dropping a table drops the functions that return its rows. Nor if the
-- owner of the set's schema is neither the owner of the main schema or its tables nor the caller:
-- functions that another role created there are not ours.
SELECT s.place
FROM @schema@.function_sets s
JOIN pg_namespace main ON main.nspname = $3
JOIN pg_class t ON t.relnamespace = main.oid AND t.relname = 'function_sets'
JOIN pg_namespace n ON n.nspname = coalesce(s.place, $3)
WHERE s.checksum = $1
  AND (n.nspowner IN (main.nspowner, t.relowner) OR pg_has_role(n.nspowner, 'USAGE'))
  AND NOT EXISTS (
    SELECT FROM unnest($2::text[]) AS wanted (name)
    WHERE NOT EXISTS (
      SELECT FROM pg_proc p
      WHERE p.pronamespace = n.oid
        AND p.proname = wanted.name || CASE WHEN s.place IS NULL THEN '_' || s.checksum ELSE '' END))
