-- Forgets jobs that ended long ago. Called by: redrive::start.
DELETE FROM redrives WHERE state <> 0 AND updated_at < ?1
