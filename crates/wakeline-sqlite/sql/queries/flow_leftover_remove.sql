-- Forgets a lane or execution of which nothing is left.
-- Called by: delete::erase.
DELETE FROM lane_leftovers WHERE leftover_id = ?1
