-- A name of activities by its number.
-- Called by: names::route.
SELECT name FROM activity_names WHERE name_id = ?1
