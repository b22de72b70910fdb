-- Whether a session has an activity of a tag.
-- Called by: session::next_end.
SELECT 1 FROM work INDEXED BY work_session WHERE session = ?1 AND tag_id = ?2 LIMIT 1
