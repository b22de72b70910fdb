-- Cancels some waiting deliveries of an endpoint. Uses the index hook_deliveries_waiting.
UPDATE hook_deliveries
SET state = 'cancelled', due_at = NULL, in_order = NULL, back_state = NULL, back_due_at = NULL, back_behind = NULL,
    updated_at = ?2
WHERE delivery_no IN (
    SELECT d.delivery_no FROM hook_deliveries d INDEXED BY hook_deliveries_waiting
    WHERE d.state = 'waiting' AND d.endpoint_no = ?1 LIMIT ?3)
