-- Records why the last attempt of an activity failed.
UPDATE work SET last_error = ?2 WHERE work_id = ?1
