-- Removes the oldest acts before a moment. Called by: access::prune.
DELETE FROM audit WHERE number IN (
    SELECT number FROM audit WHERE at < ?1 ORDER BY at, number LIMIT ?2)
