-- Sessions that have ended and whose work is not open to all yet.
-- Called by: session::release_expired.
SELECT session FROM sessions INDEXED BY sessions_until WHERE owner IS NOT NULL AND until <= ?1
