-- Whether a schema exists. CREATE SCHEMA IF NOT EXISTS asks for the right to create even if it does.
-- Called by: migrate_up.
SELECT nspname::text AS name FROM pg_namespace WHERE nspname = $1
