-- What filters of endpoints look at.
-- Called by: message::filtered.
SELECT event_type, channels FROM hook_messages WHERE message_no = ?1
