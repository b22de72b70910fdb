-- Adds the payload of a message.
INSERT INTO hook_payloads (message_no, expires_at, payload) VALUES (?1, ?2, ?3)
