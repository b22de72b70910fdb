-- The id after which the endpoints of a deleted application are still to be stopped.
SELECT stop_after FROM hook_applications WHERE application_no = ?1
