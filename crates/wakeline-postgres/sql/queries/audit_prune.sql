-- Removes the oldest audit events that are older than a span in microseconds. Lock order: entries
-- by age.
WITH old AS (
    SELECT a.number FROM @schema@.audit a
    WHERE a.at < @schema@.clock() - $1::bigint * interval '1 microsecond'
    ORDER BY a.at, a.number LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM @schema@.audit a USING old WHERE a.number = old.number RETURNING a.number
