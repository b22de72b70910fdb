-- The activities of a session, and when each can be claimed.
SELECT tag_id, name_id, coalesce(due_at, 0) FROM work INDEXED BY work_session WHERE session = ?1
