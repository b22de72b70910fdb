-- The sessions that somebody owns, by their end.
-- Called by: session::next_end.
SELECT session, owner, until FROM sessions INDEXED BY sessions_until
WHERE owner IS NOT NULL ORDER BY until
