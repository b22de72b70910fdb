-- Changes who may claim the activities of a session.
UPDATE work INDEXED BY work_session SET taker = ?2 WHERE session = ?1
