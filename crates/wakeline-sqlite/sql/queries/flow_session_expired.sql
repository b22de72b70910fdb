-- Sessions that have ended and whose activities are not available to other owners yet.
SELECT session FROM sessions INDEXED BY sessions_until WHERE owner IS NOT NULL AND until <= ?1
