-- The sessions that have an owner, ordered by their end.
SELECT session, owner, until FROM sessions INDEXED BY sessions_until
WHERE owner IS NOT NULL ORDER BY until
