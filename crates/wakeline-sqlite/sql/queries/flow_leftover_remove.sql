-- Removes the record of a lane or an execution of which no rows are left.
DELETE FROM lane_leftovers WHERE leftover_id = ?1
