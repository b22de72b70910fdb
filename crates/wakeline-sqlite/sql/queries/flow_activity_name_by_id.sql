-- An activity name by its number.
SELECT name FROM activity_names WHERE name_id = ?1
