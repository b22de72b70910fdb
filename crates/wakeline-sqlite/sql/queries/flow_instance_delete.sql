-- Removes an instance.
-- Called by: delete::remove.
DELETE FROM instances WHERE lane_id = ?1
