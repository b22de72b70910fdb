-- Puts the open deliveries of an endpoint into strict order, or removes them from it. Uses the
-- indexes over waiting and leased deliveries.
UPDATE hook_deliveries SET in_order = ?2
WHERE delivery_no IN (
    SELECT delivery_no FROM hook_deliveries INDEXED BY hook_deliveries_waiting
    WHERE state = 'waiting' AND endpoint_no = ?1
    UNION ALL
    SELECT delivery_no FROM hook_deliveries INDEXED BY hook_deliveries_leased
    WHERE state = 'leased' AND endpoint_no = ?1)
