-- Returns sets of functions that no node has used for a week, of this release ($1) or older ones,
-- but neither the caller's own ($2) nor the one that the functions for users call. Only those that
-- the caller may drop: a server that does not own the schema leaves them to others. $3: the main
-- schema.
SELECT s.checksum, s.place FROM @schema@.function_sets s
LEFT JOIN pg_namespace n ON n.nspname = coalesce(s.place, $3)
WHERE s.used_at < @schema@.clock() - interval '7 days' AND s.release <= $1 AND s.checksum <> $2
  AND s.checksum <> (SELECT r.function_set FROM @schema@.releases r ORDER BY r.release DESC LIMIT 1)
  AND coalesce(pg_has_role(n.nspowner, 'USAGE'), true)
