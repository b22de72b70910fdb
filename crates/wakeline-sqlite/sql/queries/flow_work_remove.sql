-- Removes an activity.
DELETE FROM work WHERE work_id = ?1
