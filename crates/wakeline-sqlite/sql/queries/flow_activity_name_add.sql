-- Stores the name of an activity. The rowid becomes its number.
INSERT INTO activity_names (name) VALUES (?1)
