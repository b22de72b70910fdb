-- Takes a session away from its owner.
-- Called by: session::release_expired.
UPDATE sessions SET owner = NULL WHERE session = ?1
