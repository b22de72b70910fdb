-- Removes the oldest audit events before a time.
DELETE FROM audit WHERE number IN (
    SELECT number FROM audit WHERE at < ?1 ORDER BY at, number LIMIT ?2)
