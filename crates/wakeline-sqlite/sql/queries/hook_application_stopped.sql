-- Stores the id after which the endpoints of a deleted application are still to be stopped.
UPDATE hook_applications SET stop_after = ?2 WHERE application_no = ?1
