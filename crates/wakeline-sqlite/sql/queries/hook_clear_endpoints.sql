-- Removes what is left of an application's endpoints.
-- Called by: chore::forget_if_empty.
DELETE FROM hook_endpoints WHERE application_no = ?1
