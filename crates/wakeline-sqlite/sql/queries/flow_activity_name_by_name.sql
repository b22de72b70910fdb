-- The number of an activity name.
SELECT name_id FROM activity_names WHERE name = ?1
