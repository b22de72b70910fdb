-- Says that a node uses a set of functions, and returns where that is; no row if it was dropped.
-- Called by: PostgresStore::connect, and once an hour by each node.
UPDATE @schema@.function_sets SET used_at = @schema@.clock() WHERE checksum = $1 RETURNING place
