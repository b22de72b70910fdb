-- Stores the progress of a redrive.
UPDATE redrives
SET place = ?2, done = ?3, failed = ?4, state = ?5, due_at = ?6, updated_at = ?7
WHERE number = ?1
