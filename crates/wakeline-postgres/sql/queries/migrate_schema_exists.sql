-- Returns whether a schema exists. CREATE SCHEMA IF NOT EXISTS requires the right to create even if
-- it does.
SELECT nspname::text AS name FROM pg_namespace WHERE nspname = $1
