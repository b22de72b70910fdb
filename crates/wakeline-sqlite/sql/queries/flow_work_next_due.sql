-- When the next delayed or leased activity of a route can be claimed by a taker. Probes the index
-- work_due.
SELECT due_at FROM work INDEXED BY work_due
WHERE tag_id = ?1 AND name_id = ?2 AND taker = ?3 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1
