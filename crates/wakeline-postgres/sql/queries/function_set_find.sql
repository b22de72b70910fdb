-- Where a set of functions is. A dump of this schema alone does not hold it, so that it may be missing
-- after a restore. Called by: migrate.
SELECT s.place FROM @schema@.function_sets s
WHERE s.checksum = $1
  AND (s.place IS NULL OR EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = s.place))
