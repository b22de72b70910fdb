-- Removes redrives that ended before a time.
DELETE FROM redrives WHERE state <> 0 AND updated_at < ?1
