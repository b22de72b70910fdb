-- Assigns a number to a capability.
INSERT INTO capabilities (name) VALUES (?1)
