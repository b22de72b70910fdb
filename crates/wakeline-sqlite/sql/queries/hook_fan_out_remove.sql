-- Removes a fan-out, if it is pending.
DELETE FROM hook_fan_outs WHERE application_no = ?1 AND message_no = ?2
