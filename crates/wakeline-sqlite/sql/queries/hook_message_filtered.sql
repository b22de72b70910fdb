-- The columns of a message that endpoint filters use.
SELECT event_type, channels FROM hook_messages WHERE message_no = ?1
