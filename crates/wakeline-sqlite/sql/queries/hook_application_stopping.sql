-- Behind which id the endpoints of a deleted application are still to be stopped.
-- Called by: application::stop_some.
SELECT stop_after FROM hook_applications WHERE application_no = ?1
