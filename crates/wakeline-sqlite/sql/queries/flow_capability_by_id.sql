-- A capability by its number.
-- Called by: names::capability_name.
SELECT name FROM capabilities WHERE capability_id = ?1
