-- Ends a fan-out, if it waits.
-- Called by: fan_out::remove.
DELETE FROM hook_fan_outs WHERE application_no = ?1 AND message_no = ?2
