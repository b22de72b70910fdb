-- Takes the lock of migrations if it is free.
SELECT pg_try_advisory_xact_lock($1) AS locked
