-- Gives a name of activities a number.
-- Called by: names::ensure_activity.
INSERT INTO activity_names (name) VALUES (?1)
