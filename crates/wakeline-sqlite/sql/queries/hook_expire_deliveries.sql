-- Removes some deliveries of a message.
DELETE FROM hook_deliveries WHERE delivery_no IN (
    SELECT d.delivery_no FROM hook_deliveries d INDEXED BY hook_deliveries_message WHERE d.message_no = ?1 LIMIT ?2
)
