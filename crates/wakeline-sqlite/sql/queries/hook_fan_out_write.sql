-- Stores the progress of a fan-out.
UPDATE hook_fan_outs SET place = ?3 WHERE application_no = ?1 AND message_no = ?2
