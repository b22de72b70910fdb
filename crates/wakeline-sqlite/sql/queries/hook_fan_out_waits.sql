-- Whether a fan-out of an application waits.
-- Called by: fan_out::at_once.
SELECT 1 FROM hook_fan_outs WHERE application_no = ?1 LIMIT 1
