-- Removes an activity that was cancelled.
DELETE FROM work WHERE lane_id = ?1 AND execution = ?2 AND activity = ?3
