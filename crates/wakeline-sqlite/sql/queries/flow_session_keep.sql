-- Extends the live sessions of an owner that were active since ?4.
UPDATE sessions INDEXED BY sessions_owner SET until = max(until, ?3)
WHERE owner = ?1 AND until > ?2 AND active_at >= ?4
