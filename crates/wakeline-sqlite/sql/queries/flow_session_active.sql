-- Notes that something happened in a session.
-- Called by: session::touch.
UPDATE sessions SET active_at = ?2 WHERE session = ?1
