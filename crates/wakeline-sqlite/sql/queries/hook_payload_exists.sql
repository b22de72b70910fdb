-- Whether the payload of a message exists.
SELECT 1 FROM hook_payloads WHERE message_no = ?1
