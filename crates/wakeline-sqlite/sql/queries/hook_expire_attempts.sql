-- Removes some attempts of a message.
DELETE FROM hook_attempts WHERE attempt_no IN (
    SELECT a.attempt_no FROM hook_attempts a INDEXED BY hook_attempts_message WHERE a.message_no = ?1 LIMIT ?2
)
