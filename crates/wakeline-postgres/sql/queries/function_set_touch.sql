-- Says that a node uses a set of functions, and returns where that is; no row if it was dropped. The
-- time does not go back: it shows a node that starts how far the store's clock was (clock_start).
-- Called by: PostgresStore::connect, and once an hour by each node.
UPDATE @schema@.function_sets SET used_at = greatest(used_at, @schema@.clock())
WHERE checksum = $1 RETURNING place
