-- Leaves the deliveries of a message for later.
-- Called by: fan_out::add.
INSERT INTO hook_fan_outs (application_no, message_no, only_endpoint, place, last) VALUES (?1, ?2, ?3, 0, ?4)
