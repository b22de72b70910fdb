-- Extends the live sessions of an owner that were active since ?4.
-- Called by: session::keep.
UPDATE sessions INDEXED BY sessions_owner SET until = max(until, ?3)
WHERE owner = ?1 AND until > ?2 AND active_at >= ?4
