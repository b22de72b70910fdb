-- Assigns a number to an activity name.
INSERT INTO activity_names (name) VALUES (?1)
