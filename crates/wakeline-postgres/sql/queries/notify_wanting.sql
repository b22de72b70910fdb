-- Keeps the triggers in place as long as this connection lives, for a node that needs them.
SELECT pg_advisory_lock_shared($1)
