-- Removes an activity.
-- Called by: work::remove.
DELETE FROM work WHERE work_id = ?1
