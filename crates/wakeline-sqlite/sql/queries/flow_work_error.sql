-- Notes why the last try of an activity failed.
-- Called by: retries::retry.
UPDATE work SET last_error = ?2 WHERE work_id = ?1
