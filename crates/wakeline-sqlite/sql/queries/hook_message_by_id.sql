-- The number of a message of an application.
-- Called by: message::find.
SELECT message_no FROM hook_messages WHERE application_no = ?1 AND id = ?2
