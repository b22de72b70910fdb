-- The number of a message of an application.
SELECT message_no FROM hook_messages WHERE application_no = ?1 AND id = ?2
