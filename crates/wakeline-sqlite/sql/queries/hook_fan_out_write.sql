-- Notes how far a fan-out has come.
-- Called by: fan_out::go_on.
UPDATE hook_fan_outs SET place = ?3 WHERE application_no = ?1 AND message_no = ?2
