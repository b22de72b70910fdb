-- Only one node at a time takes rows over, so that their order is kept. The lock is taken without
-- waiting: the node that holds it has been notified of the rows as well.
SELECT pg_try_advisory_xact_lock($1) AS locked
