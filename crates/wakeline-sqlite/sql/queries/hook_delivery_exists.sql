-- Whether an endpoint has a delivery of a message.
-- Called by: fan_out::piece.
SELECT 1 FROM hook_deliveries WHERE endpoint_no = ?1 AND message_no = ?2
