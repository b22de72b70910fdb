-- Moves the due time of a lane with a corrupt row into the future. Otherwise it would be the first
-- candidate of every claim.
UPDATE lanes SET due_at = ?2 WHERE lane_id = ?1
