-- The number of a name of activities.
-- Called by: names::activity.
SELECT name_id FROM activity_names WHERE name = ?1
