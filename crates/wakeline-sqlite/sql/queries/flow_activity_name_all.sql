-- The numbers of all names of activities.
-- Called by: names::activities.
SELECT name_id FROM activity_names
