-- What filters of endpoints look at.
-- Called by: job::replay.
SELECT event_type, channels FROM hook_messages WHERE message_no = ?1
