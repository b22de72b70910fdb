-- The numbers of all activity names.
SELECT name_id FROM activity_names
