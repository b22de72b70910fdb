-- Lets nothing follow the attempts of an endpoint that are under way.
-- Called by: endpoint::remove. Walks hook_deliveries_leased.
UPDATE hook_deliveries INDEXED BY hook_deliveries_leased SET cancelled = 1, updated_at = ?2
WHERE state = 'leased' AND endpoint_no = ?1
