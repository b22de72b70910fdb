-- Removes sessions that have ended and for which no work is there.
-- Called by: session::tidy.
DELETE FROM sessions WHERE until <= ?1
  AND NOT EXISTS (SELECT 1 FROM work w WHERE w.session = sessions.session)
