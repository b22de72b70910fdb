-- Removes the payload of a message.
DELETE FROM hook_payloads WHERE message_no = ?1
