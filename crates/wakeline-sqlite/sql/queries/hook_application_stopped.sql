-- Notes behind which id the endpoints of a deleted application are still to be stopped.
-- Called by: application::stop_some.
UPDATE hook_applications SET stop_after = ?2 WHERE application_no = ?1
