-- Adds a message.
INSERT INTO hook_messages (application_no, id, event_type, event_id, channels, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
