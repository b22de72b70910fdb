-- Keeps claims away from a lane that cannot be read: due at once it would be the first that each of them meets.
-- Called by: Books::take.
UPDATE lanes SET due_at = ?2 WHERE lane_id = ?1
