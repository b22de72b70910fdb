-- The same for first attempts only.
-- Called by: claim::line_due.
SELECT fresh_at FROM hook_lanes INDEXED BY hook_lanes_fresh
WHERE pulled = 0 AND fresh_at IS NOT NULL ORDER BY fresh_at LIMIT 1
