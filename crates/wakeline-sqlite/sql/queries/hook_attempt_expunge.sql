-- Removes the response of an endpoint from an attempt.
UPDATE hook_attempts SET response = NULL WHERE application_no = ?1 AND id = ?2 AND message_no = ?3
