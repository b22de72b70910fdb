-- Keeps claims away from an activity that cannot be read.
-- Called by: Line::take.
UPDATE work SET due_at = ?2 WHERE work_id = ?1
