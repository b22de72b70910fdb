-- Removes an activity.
-- Called by: work::complete.
DELETE FROM work WHERE work_id = ?1
