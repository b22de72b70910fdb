-- When the next lane of a capability can be claimed.
SELECT due_at FROM lanes INDEXED BY lanes_due
WHERE capability_id = ?1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1
