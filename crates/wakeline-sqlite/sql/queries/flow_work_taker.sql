-- Says who may take the activities of a session from now on.
-- Called by: session::open_to.
UPDATE work INDEXED BY work_session SET taker = ?2 WHERE session = ?1
