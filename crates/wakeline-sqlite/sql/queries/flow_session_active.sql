-- Records activity in a session.
UPDATE sessions SET active_at = ?2 WHERE session = ?1
