-- When the first lease of a delivery that is sent ends; it may have passed.
-- Called by: claim::line_due. Walks hook_deliveries_sent.
SELECT lease_until FROM hook_deliveries INDEXED BY hook_deliveries_sent
WHERE state = 'leased' AND pulled = 0 ORDER BY lease_until LIMIT 1
