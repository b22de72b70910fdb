-- Whether an application has a pending fan-out.
SELECT 1 FROM hook_fan_outs WHERE application_no = ?1 LIMIT 1
