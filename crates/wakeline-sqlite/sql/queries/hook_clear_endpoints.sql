-- Removes the remaining endpoints of an application.
DELETE FROM hook_endpoints WHERE application_no = ?1
