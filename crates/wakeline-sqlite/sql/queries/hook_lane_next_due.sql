-- When the first endpoint that is sent to can be served; it may have passed.
-- Called by: claim::line_due.
SELECT due_at FROM hook_lanes INDEXED BY hook_lanes_due
WHERE pulled = 0 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1
