-- When the first activity of a session and a tag is free, if there is one.
-- Called by: session::first_free.
SELECT min(coalesce(due_at, 0)) FROM work INDEXED BY work_session WHERE session = ?1 AND tag_id = ?2
