-- Returns the schemas of all sets of functions, of any release.
SELECT place FROM @schema@.function_sets WHERE place IS NOT NULL
