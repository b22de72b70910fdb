-- Removes a scheduled message: it was moved, cancelled or replaced.
-- Called by: schedule.
DELETE FROM scheduled WHERE scheduled_id = ?1
