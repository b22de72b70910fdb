-- Stores the name of a capability. The rowid becomes its number.
INSERT INTO capabilities (name) VALUES (?1)
