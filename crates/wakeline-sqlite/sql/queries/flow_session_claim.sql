-- Assigns a session to an owner.
INSERT INTO sessions (session, owner, until, active_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (session) DO UPDATE SET owner = ?2, until = ?3, active_at = ?4
