-- Returns which of the tables in which migrations are recorded exist in a schema.
SELECT c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname IN ('migrations', 'releases', 'test_clock')
