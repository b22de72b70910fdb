-- The oldest activity of a tag that can be taken by some.
-- Called by: Line::first. Probes work_ready.
SELECT work_id FROM work INDEXED BY work_ready
WHERE tag_id = ?1 AND taker = ?2 AND due_at IS NULL ORDER BY work_id LIMIT 1
