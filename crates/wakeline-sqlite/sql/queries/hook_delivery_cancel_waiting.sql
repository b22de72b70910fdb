-- Cancels what waits for an endpoint.
-- Called by: endpoint::remove. Walks hook_deliveries_waiting.
UPDATE hook_deliveries INDEXED BY hook_deliveries_waiting
SET state = 'cancelled', due_at = NULL, in_order = NULL, back_state = NULL, back_due_at = NULL, back_behind = NULL,
    updated_at = ?2
WHERE state = 'waiting' AND endpoint_no = ?1
