-- Keeps the triggers in place for as long as this connection lives. Called by: HintListener, for a node
-- that wants them.
SELECT pg_advisory_lock_shared($1)
