-- The owner of a session.
SELECT owner FROM sessions WHERE session = ?1 AND until > ?2
