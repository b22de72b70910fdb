-- The deletion with which somebody has to go on first, and when.
-- Called by: delete::clear_deleted.
SELECT deletion, due_at FROM lane_leftovers INDEXED BY lane_leftovers_due ORDER BY due_at LIMIT 1
