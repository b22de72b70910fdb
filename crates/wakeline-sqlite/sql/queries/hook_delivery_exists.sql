-- Whether an endpoint has a delivery of a message.
SELECT 1 FROM hook_deliveries WHERE endpoint_no = ?1 AND message_no = ?2
