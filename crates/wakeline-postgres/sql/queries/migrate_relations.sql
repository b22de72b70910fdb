-- Which of the book-keeping tables exist in a schema. Called by: migrate.
SELECT c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname IN ('migrations', 'function_checksums', 'test_clock')
