-- Nodes that start at once migrate one after another. Called by: migrate_up.
SELECT pg_advisory_xact_lock($1)
