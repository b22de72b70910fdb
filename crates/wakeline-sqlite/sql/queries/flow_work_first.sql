-- The oldest activity of a route that a taker can claim. Probes the index work_ready.
SELECT work_id FROM work INDEXED BY work_ready
WHERE tag_id = ?1 AND name_id = ?2 AND taker = ?3 AND due_at IS NULL ORDER BY work_id LIMIT 1
