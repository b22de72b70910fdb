-- Ends the live sessions of an owner.
UPDATE sessions INDEXED BY sessions_owner SET until = ?2 WHERE owner = ?1 AND until > ?2
