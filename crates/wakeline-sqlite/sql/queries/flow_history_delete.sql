-- Removes the histories of an instance.
-- Called by: delete::remove.
DELETE FROM history WHERE lane_id = ?1
