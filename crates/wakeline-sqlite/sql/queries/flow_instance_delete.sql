-- Removes the row of an instance.
DELETE FROM instances WHERE lane_id = ?1
