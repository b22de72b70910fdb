-- The unfinished deletion that housekeeping continues next, and when.
SELECT deletion, due_at FROM lane_leftovers INDEXED BY lane_leftovers_due ORDER BY due_at LIMIT 1
