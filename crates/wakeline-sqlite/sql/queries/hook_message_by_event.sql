-- The number of a message by its user's own id.
-- Called by: message::find.
SELECT message_no FROM hook_messages WHERE application_no = ?1 AND event_id = ?2
