-- Gives a capability a number.
-- Called by: names::ensure_capability.
INSERT INTO capabilities (name) VALUES (?1)
