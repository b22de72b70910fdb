-- Removes what an endpoint answered in an attempt.
-- Called by: admin::expunge_response.
UPDATE hook_attempts SET response = NULL WHERE application_no = ?1 AND id = ?2 AND message_no = ?3
