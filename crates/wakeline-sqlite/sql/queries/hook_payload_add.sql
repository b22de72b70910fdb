-- Adds what is sent of a message.
-- Called by: message::add.
INSERT INTO hook_payloads (message_no, expires_at, payload) VALUES (?1, ?2, ?3)
