-- Removes the pending fan-outs of a deleted application.
DELETE FROM hook_fan_outs WHERE application_no = ?1
