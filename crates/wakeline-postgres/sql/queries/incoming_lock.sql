-- One node at a time takes rows over, so that their order is kept. A try-lock: whoever holds it has
-- heard of the rows as well. Called by: IncomingPump.
SELECT pg_try_advisory_xact_lock($1) AS locked
