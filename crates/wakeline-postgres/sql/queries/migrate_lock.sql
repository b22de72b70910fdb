-- Takes the lock of migrations, so that nodes that start concurrently migrate one after another.
SELECT pg_advisory_xact_lock($1)
