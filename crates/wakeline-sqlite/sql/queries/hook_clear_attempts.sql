-- Removes some attempts of an application. Uses the index over application and id.
DELETE FROM hook_attempts WHERE attempt_no IN (
    SELECT attempt_no FROM hook_attempts WHERE application_no = ?1 LIMIT ?2
)
