-- Removes the owner of a session.
UPDATE sessions SET owner = NULL WHERE session = ?1
