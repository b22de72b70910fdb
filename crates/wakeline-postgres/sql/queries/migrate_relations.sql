-- Which of the tables that migrations are recorded in exist in a schema. Called by: migrate.
SELECT c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname IN ('migrations', 'releases', 'test_clock')
