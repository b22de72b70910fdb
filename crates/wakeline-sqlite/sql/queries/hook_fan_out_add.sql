-- Records that the deliveries of a message are still to be created.
INSERT INTO hook_fan_outs (application_no, message_no, only_endpoint, place, last) VALUES (?1, ?2, ?3, 0, ?4)
