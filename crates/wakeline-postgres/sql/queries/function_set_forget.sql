-- Removes the record of a set of functions, in the transaction that drops it; no row if a node has
-- begun to use it again.
DELETE FROM @schema@.function_sets
WHERE checksum = $1 AND used_at < @schema@.clock() - interval '7 days'
RETURNING checksum
