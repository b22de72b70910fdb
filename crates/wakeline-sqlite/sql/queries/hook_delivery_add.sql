-- Adds a delivery that is due now.
-- Called by: Delivery::add.
INSERT INTO hook_deliveries (endpoint_no, message_no, state, class, due_at, in_order, pulled, created_at, updated_at)
VALUES (?1, ?2, 'waiting', ?3, ?6, ?4, ?5, ?6, ?6)
