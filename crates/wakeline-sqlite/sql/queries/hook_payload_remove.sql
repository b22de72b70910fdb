-- Drops the payload of a message.
-- Called by: message::drop_payload.
DELETE FROM hook_payloads WHERE message_no = ?1
