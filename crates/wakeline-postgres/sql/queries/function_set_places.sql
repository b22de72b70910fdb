-- The schemas of all sets of functions, of any release. Called by: remove_schema.
SELECT place FROM @schema@.function_sets WHERE place IS NOT NULL
