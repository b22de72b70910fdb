-- Removes a scheduled message: it was moved, cancelled or replaced.
DELETE FROM scheduled WHERE scheduled_id = ?1
