-- Removes sessions that have ended and have no activities.
DELETE FROM sessions WHERE until <= ?1
  AND NOT EXISTS (SELECT 1 FROM work w WHERE w.session = sessions.session)
