-- Takes an activity back.
-- Called by: commit::insert_work.
DELETE FROM work WHERE lane_id = ?1 AND execution = ?2 AND activity = ?3
