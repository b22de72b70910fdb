-- A capability by its number.
SELECT name FROM capabilities WHERE capability_id = ?1
