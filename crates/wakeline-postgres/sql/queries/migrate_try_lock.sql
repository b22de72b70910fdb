-- The lock of migrations, if nobody holds it. Called by: drop_unused.
SELECT pg_try_advisory_xact_lock($1) AS locked
