-- Records that a node uses a set of functions, and returns its schema; no row if it was dropped.
-- The time never decreases: a starting node reads from it how far the store's clock was
-- (clock_start). Each node runs it once an hour.
UPDATE @schema@.function_sets SET used_at = greatest(used_at, @schema@.clock())
WHERE checksum = $1 RETURNING place
