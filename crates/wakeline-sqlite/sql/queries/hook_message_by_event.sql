-- The number of a message by the id that its user chose.
SELECT message_no FROM hook_messages WHERE application_no = ?1 AND event_id = ?2
