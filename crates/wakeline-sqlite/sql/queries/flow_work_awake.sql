-- Lets activities of a tag be taken whose time has come, or whose lease has expired.
-- Called by: Line::awake.
UPDATE work INDEXED BY work_due SET due_at = NULL
WHERE tag_id = ?1 AND taker = ?2 AND due_at <= ?3
