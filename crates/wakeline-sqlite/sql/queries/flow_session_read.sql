-- Who owns a session.
-- Called by: session::taker.
SELECT owner FROM sessions WHERE session = ?1 AND until > ?2
