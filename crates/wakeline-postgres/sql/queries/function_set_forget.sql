-- Forgets a set of functions unless a node has begun to use it again: no row then. Called by:
-- drop_unused, which drops the functions in the same transaction.
DELETE FROM @schema@.function_sets
WHERE checksum = $1 AND used_at < @schema@.clock() - interval '7 days'
RETURNING checksum
