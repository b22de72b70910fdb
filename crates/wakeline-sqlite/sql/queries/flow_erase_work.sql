-- Removes some activities of a lane.
DELETE FROM work WHERE work_id IN (SELECT w.work_id FROM work w WHERE w.lane_id = ?1 LIMIT ?2)
