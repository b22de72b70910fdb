-- Whether the payload of a message is there.
-- Called by: message::has_payload.
SELECT 1 FROM hook_payloads WHERE message_no = ?1
